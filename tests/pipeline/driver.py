"""A pipeline that follows a store into a lake until it is killed: python driver.py URL LAKE"""

import sys

from stem.core.config import Settings
from stem.pipeline.flow import Flow
from stem.pipeline.session import session

if __name__ == "__main__":
    url, lake = sys.argv[1:]
    flow = Flow(
        Settings(broker_url=url), lake, follow=True, events_a_batch=150, told=lambda batch: print(batch, flush=True)
    )
    flow.run(lambda: session("campaign", master="local[2,4]", conf={"spark.sql.shuffle.partitions": "2"}))
