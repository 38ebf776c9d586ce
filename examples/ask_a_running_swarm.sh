#!/usr/bin/env bash
# A shell asks a running swarm: the three actors of `retinue demo`, with a script in the place of their model.
#
# Shows: `retinue serve`, `retinue token mint` into a file that nobody else can read, `retinue ask` with its arguments by name, and what a
# token that permits less gets. Everything lies in a folder that is removed at the end.
# Run:   bash examples/ask_a_running_swarm.sh
set -euo pipefail

folder=$(mktemp -d)
touch "$folder/out"
retinue serve retinue.demo.served:swarm --port 0 --data-dir "$folder/data" >"$folder/out" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT

until url=$(grep -om1 'http://[0-9.:]*' "$folder/out"); do # it says where it listens
    kill -0 "$server" # or it has ended, and so does this
    sleep 0.1
done

retinue token mint --data-dir "$folder/data" --subject "${USER:-somebody}" \
    --allow swarm.work --allow model.complete --allow chronicle.write --out "$folder/token"

# The one line:
retinue ask "$url" /user/writer demo/Compose@1 topic=lighthouses --token-file "$folder/token"

# A token that permits less, made without a key. The writer asks the model as whoever asked the writer, so it does not suffice.
retinue token narrow --deny model.complete --token-file "$folder/token" --out "$folder/less"
retinue ask "$url" /user/writer demo/Compose@1 topic=lighthouses --token-file "$folder/less" || echo "exit code $?"
