# For scripts/page and scripts/pingora, which read it: the example server
# (integrations/examples/server), of a release build.

# Starts the server, and waits until it listens. Sets $url. Its output is in WORK/server, its errors
# in WORK/server-errors.
start_example_server() { # WORK
    cargo build --quiet --release --package tourbillon-integrations --example server
    "${CARGO_TARGET_DIR:-target}/release/examples/server" 127.0.0.1:0 >"$1/server" 2>"$1/server-errors" &
    url=
    for _ in $(seq 100); do
        url=$(sed -n 's/^listening on //p' "$1/server")
        [ -z "$url" ] || return 0
        sleep 0.1
    done
    echo "the example server does not start: $(<"$1/server-errors")" >&2
    return 1
}
