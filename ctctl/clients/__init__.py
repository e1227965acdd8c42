"""The only places that open sockets and ask the operating system; one door per third-party library."""
