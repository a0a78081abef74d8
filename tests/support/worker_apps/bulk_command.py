"""The tasks of `bulk`, on the store that the environment names when the command imports them."""

from stem import Stem
from support.worker_apps.bulk import fill

app = fill(Stem())
