"""The kernel's conntrack table over netlink: a reader that cannot delete, a deleter, and both together.

Every call opens its own socket in the calling thread's network namespace and closes it before it returns.
"""

from ctctl.backends.kernel.backend import KernelBackend
from ctctl.backends.kernel.deleter import KernelDeleter
from ctctl.backends.kernel.reader import KernelReader

__all__ = ["KernelBackend", "KernelDeleter", "KernelReader"]
