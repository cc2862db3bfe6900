// Prints what voiced hears, a line a final: LANE, a tab, the text. It goes on when voiced or the bus is restarted.
//
//     npm install dbus-next
//     node subscriber.js [--system | ADDRESS]
//
// What to copy: the two match rules, the Subscribe after every NameOwnerChanged, and that only the owner of voiced's name is believed.
'use strict';
const dbus = require('dbus-next');

const NAME = 'org.voiced.Voice1', ROOT = '/org/voiced/Voice1';
const BUS = 'org.freedesktop.DBus', BUS_PATH = '/org/freedesktop/DBus';
const RULES = [
  `type='signal',sender='${BUS}',path='${BUS_PATH}',interface='${BUS}',member='NameOwnerChanged',arg0='${NAME}'`,
  `type='signal',sender='${NAME}',interface='${NAME}.Lane',path_namespace='${ROOT}'`,
];
const where = process.argv[2];
const say = (line) => process.stderr.write(line + '\n');

function connect() {
  let bus, owner = '', over = false;
  try {
    bus = where === '--system' ? dbus.systemBus() : dbus.sessionBus(where ? { busAddress: where } : {});
  } catch (error) {
    say(`no bus: ${error.message}; name its ADDRESS (\`voicectl status\` says it)`);
    process.exit(1);
  }

  const again = (error) => {
    if (over) return;
    over = true;
    say(`no bus: ${error ? error.message : 'it is gone'}`);
    setTimeout(connect, 500);
  };
  const call = (destination, path, iface, member, signature = '', body = []) =>
    bus.call(new dbus.Message({ destination, path, interface: iface, member, signature, body }));
  // on a system bus signals go to subscribers alone, and a subscription ends with the voiced that it was made with
  const subscribe = () => call(NAME, ROOT, `${NAME}.Manager`, 'Subscribe').catch((error) => say(error.message));

  bus.on('error', again);
  bus._connection.stream.on('close', () => again());
  bus.on('message', (message) => {
    if (message.type !== dbus.MessageType.SIGNAL) return;
    if (message.sender === BUS && message.member === 'NameOwnerChanged' && message.body[0] === NAME) {
      owner = message.body[2];
      say(owner ? 'voiced is there' : 'voiced is gone; waiting for it');
      if (owner) subscribe();
    } else if (message.sender === owner && message.member === 'Final') {
      process.stdout.write(`${message.path.split('/').pop()}\t${message.body[3]}\n`);
    }
  });
  bus.once('connect', async () => {
    try {
      for (const rule of RULES) await call(BUS, BUS_PATH, BUS, 'AddMatch', 's', [rule]);
      owner = await call(BUS, BUS_PATH, BUS, 'GetNameOwner', 's', [NAME]).then((reply) => reply.body[0], () => '');
      if (owner) await subscribe();
      say(owner ? 'listening' : 'waiting for voiced');
    } catch (error) {
      again(error);
    }
  });
}

connect();
