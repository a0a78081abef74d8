"""The dashboard: server-rendered pages over the questions of `stem.observe`. Mount it, or run `stem dashboard`.

from stem.dashboard import Access, dashboard
app.mount("/stem", dashboard(stem_app, Access(token=...)))
"""

from stem.dashboard.access.options import Access as Access
from stem.dashboard.application import dashboard as dashboard
