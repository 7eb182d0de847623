# For the scripts that read it: Debian's packages.

# The headers of libevent, libev and libuv, for missing_packages.
c_timers=(/usr/include/event2/event.h=libevent-dev /usr/include/ev.h=libev-dev /usr/include/uv.h=libuv1-dev)

# Prints the packages of those commands and files that are not there, one a line.
missing_packages() { # COMMAND=PACKAGE or FILE=PACKAGE...
    local pair
    for pair in "$@"; do
        command -v "${pair%=*}" >/dev/null || [ -f "${pair%=*}" ] || echo "${pair#*=}"
    done
}

# Installs packages by apt-get, as root or by sudo.
install_packages() { # PACKAGE...
    local as_root=()
    command -v apt-get >/dev/null || { echo "no apt-get to install $* with" >&2; return 1; }
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get install -y --no-install-recommends "$@" ||
        { "${as_root[@]}" apt-get update && "${as_root[@]}" apt-get install -y --no-install-recommends "$@"; }
}
