"""The Python client: it speaks to Postgres, with the same validation as the api.

    async with Client(url) as client:
        job_id = await client.submit(charge.request(customer=…, month=…, cents=…), priority=2)
        await client.schedules.save("nightly", summarise.request(), cron="30 2 * * *", timezone="Europe/Berlin")

With ``connection=`` a job or a schedule is written in the caller's own transaction: it exists if and only if that
commits.
"""

from mainspring.client.client import Client
from mainspring.client.schedules import Schedule, ScheduleOptions, Schedules
from mainspring.domain.unique import Then, Unique

__all__ = ["Client", "Schedule", "ScheduleOptions", "Schedules", "Then", "Unique"]
