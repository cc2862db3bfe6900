#!/usr/bin/env python3
"""Prints what voiced hears, a line a final: LANE, a tab, the text. It goes on when voiced or the bus is restarted.

    python3 subscriber.py [--system | ADDRESS]

It needs dbus-fast (or dbus-next) and nothing of voiced. What to copy: the two match rules, the Subscribe after every NameOwnerChanged, and
that only the owner of voiced's name is believed.
"""

import asyncio
import sys
from typing import Any

try:
    from dbus_fast import BusType, InvalidAddressError, Message, MessageType
    from dbus_fast.aio import MessageBus
except ImportError:
    from dbus_next import BusType, InvalidAddressError, Message, MessageType  # type: ignore[no-redef]
    from dbus_next.aio import MessageBus  # type: ignore[no-redef]

NAME, ROOT = "org.voiced.Voice1", "/org/voiced/Voice1"
BUS, BUS_PATH = "org.freedesktop.DBus", "/org/freedesktop/DBus"
RULES = (
    f"type='signal',sender='{BUS}',path='{BUS_PATH}',interface='{BUS}',member='NameOwnerChanged',arg0='{NAME}'",
    f"type='signal',sender='{NAME}',interface='{NAME}.Lane',path_namespace='{ROOT}'",
)


async def listen(bus: MessageBus) -> None:
    """Until the bus is gone."""
    owner = ""

    async def call(destination: str, path: str, interface: str, member: str, signature: str = "", *body: Any) -> list[Any]:
        reply = await bus.call(Message(destination, path, interface, member, signature=signature, body=list(body)))
        return [] if reply is None or reply.message_type is MessageType.ERROR else list(reply.body)

    async def subscribe() -> None:
        # on a system bus signals go to subscribers alone, and a subscription ends with the voiced that it was made with
        await call(NAME, ROOT, f"{NAME}.Manager", "Subscribe")

    tasks: set[asyncio.Future[None]] = set()

    def heard(message: Message) -> None:
        nonlocal owner
        if message.message_type is not MessageType.SIGNAL:
            return
        if message.sender == BUS and message.member == "NameOwnerChanged" and message.body[0] == NAME:
            owner = message.body[2]
            print("voiced is there" if owner else "voiced is gone; waiting for it", file=sys.stderr, flush=True)
            if owner:
                tasks.add(task := asyncio.ensure_future(subscribe()))
                task.add_done_callback(tasks.discard)
        elif message.sender == owner and message.member == "Final":
            _sequence, _turn, _sample, text, _source, _details = message.body
            print((message.path or "").rpartition("/")[2], text, sep="\t", flush=True)

    bus.add_message_handler(heard)
    for rule in RULES:
        await call(BUS, BUS_PATH, BUS, "AddMatch", "s", rule)
    found = await call(BUS, BUS_PATH, BUS, "GetNameOwner", "s", NAME)
    owner = found[0] if found else ""
    if owner:
        await subscribe()
    print("listening" if owner else "waiting for voiced", file=sys.stderr, flush=True)
    await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]


async def main(where: str) -> None:
    while True:
        try:
            bus = MessageBus(bus_type=BusType.SYSTEM) if where == "--system" else MessageBus(bus_address=where or None)
            await listen(await bus.connect())
        except (OSError, EOFError) as error:
            print(f"no bus: {error}", file=sys.stderr, flush=True)
        await asyncio.sleep(0.5)


if __name__ == "__main__":
    try:
        asyncio.run(main("".join(sys.argv[1:2])))
    except KeyboardInterrupt:
        sys.exit(130)
    except InvalidAddressError as error:
        sys.exit(f"no bus: {error}; name its ADDRESS (`voicectl status` says it)")
