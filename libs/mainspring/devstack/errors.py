"""The errors of the devstack.

DevstackError
├── ServersMissingError    no way to get a server on this machine; says what to install
├── ProvisioningError      a package manager or an unpacking failed on the way to a server
├── ServerDiedError        a server ended before it was ready; shows the end of its log
├── NotReadyError          a server lives, but did not answer in time
├── NotOursError           a fault was asked of a server that was given by its URL
└── RefusedError           psql or the management API refused a command
"""


class DevstackError(Exception):
    """Raised for anything that keeps the devstack from doing what it was asked."""


class ServersMissingError(DevstackError):
    """Raised when a server program is neither installed nor to be had; the message says what to install."""


class ProvisioningError(DevstackError):
    """Raised when fetching, installing or unpacking a server program failed."""


class ServerDiedError(DevstackError):
    """Raised when a server ended before it was ready."""


class NotReadyError(DevstackError):
    """Raised when a server did not become ready within the time given."""


class NotOursError(DevstackError):
    """Raised when a fault is asked of a server that the devstack did not start."""


class RefusedError(DevstackError):
    """Raised when a server refused a command, in its own words."""
