#!/bin/sh
# Prints what voiced hears, a line a final: the text alone. It goes on when voiced is restarted.
#
#     sh subscriber.sh             the session bus, by gdbus
#     sh subscriber.sh --system    the system bus, by voicectl: its signals go to subscribers alone, and a tool that asks once and ends
#                                  cannot be one
#     sh subscriber.sh ADDRESS     another bus, by gdbus
set -eu

case ${1-} in
    --system)
        voicectl --bus system watch --json |
            sed -un 's/.*"event": "Final".*"text": "\(\([^"\\]\|\\.\)*\)".*/\1/p'
        ;;
    *)
        # asked once before: how the monitor ends is lost in the pipe
        why=$(gdbus call ${1:+--address} "${1:---session}" --dest org.freedesktop.DBus --object-path / --method org.freedesktop.DBus.GetId 2>&1) ||
            { echo "no bus: $why; name its ADDRESS (\`voicectl status\` says it)" >&2; exit 1; }
        # a text with ' in it is printed between "
        gdbus monitor ${1:+--address} "${1:---session}" --dest org.voiced.Voice1 |
            sed -un \
                -e "s/.*\.Lane\.Final (uint64 [0-9]*, uint64 [0-9]*, uint64 [0-9]*, '\(\([^'\\\\]\|\\\\.\)*\)', .*/\1/p" \
                -e 's/.*\.Lane\.Final (uint64 [0-9]*, uint64 [0-9]*, uint64 [0-9]*, "\(\([^"\\]\|\\.\)*\)", .*/\1/p'
        echo "the bus is gone" >&2
        exit 1
        ;;
esac
