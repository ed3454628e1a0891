"""Compare physical layouts of the job tables on a private Postgres 15.

    .venv/bin/python tests/benchmarks/layout.py [--layouts A A2 ...] [--situations empty backlog ...]

Each run gets a fresh database and pushes jobs through submit -> release -> claim -> (heartbeat) ->
complete in batches of 100 on four connections, fsync and synchronous_commit on. Each statement is one
transaction. CPU is that of all Postgres processes, the ended ones included.

Layouts (docs/adr/0001-physical-layout.md):
  0    one wide table, finished rows stay in it
  A    narrow hot row, payload beside it in job_details (partitioned by id), finished rows move out
  A2   as A with the payload in the hot row; it moves to finished_jobs with the job
  B1   as A, but no index on state: the release scans a narrow `due` table; lease in the hot row
  B2   as B1 with the lease in a table of its own
  B1R  as B1 with two rotating partitions of `due`, the empty one truncated every 2 s
A suffix `+c` (A+c, A2+c, B1+c) starts the release's scan at a lower bound of due_at for each priority, kept in
the scheduler's memory (0.25 s behind the last released row, forgotten every 30 s for one full scan).
"""

import argparse
import asyncio
import datetime as dt
import json
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
import uuid

import asyncpg
import psutil

BATCH = 100
CONNECTIONS = 4
PGBIN = os.environ.get("PGBIN", "/usr/lib/postgresql/15/bin")
LONG_AGO = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
SCHEDULED, ENQUEUED, RUNNING, SUCCEEDED = 0, 1, 2, 3
LAYOUTS = ["0", "A", "A2", "B1", "B2", "B1R", "A+c", "A2+c", "B1+c"]
KINDS = ["submit", "release", "claim", "heartbeat", "complete"]
CURSOR_LAG, CURSOR_SWEEP = 0.25, 30.0
SETTINGS = {
    "shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "5min", "fsync": "on",
    "synchronous_commit": "on", "full_page_writes": "on", "autovacuum_naptime": os.environ.get("NAPTIME", "1min"), "jit": "off",
    "max_connections": "30", "listen_addresses": "127.0.0.1", "max_parallel_workers_per_gather": "0",
    "log_min_messages": "panic",
}  # fmt: skip


class Server:
    """A private Postgres in a temporary folder."""

    def __enter__(self):
        self.base = tempfile.mkdtemp(prefix="layout-", dir=os.environ.get("LAYOUT_DIR"))
        who = {}
        if os.getuid() == 0:
            who = {"user": "postgres", "group": "postgres"}
            shutil.chown(self.base, **who)
        data = os.path.join(self.base, "data")
        subprocess.run([f"{PGBIN}/initdb", "-D", data, "-U", "postgres", "--auth=trust", "-E", "UTF8",
                        "--locale=C.UTF-8", "-N"], check=True, stdout=subprocess.DEVNULL, cwd=self.base, **who)  # fmt: skip
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        options = [x for k, v in SETTINGS.items() for x in ("-c", f"{k}={v}")]
        self.process = subprocess.Popen([f"{PGBIN}/postgres", "-D", data, "-p", str(self.port), "-k", self.base,
                                         *options], cwd=self.base, **who)  # fmt: skip
        self.ps = psutil.Process(self.process.pid)
        return self

    def __exit__(self, *_):
        self.process.send_signal(2)
        self.process.wait()
        shutil.rmtree(self.base, ignore_errors=True)

    async def connect(self, database="postgres", hot=False):
        """`hot` fixes the plans' shape, as the product's statements do, so that stale statistics can't turn them."""
        settings = (
            dict.fromkeys(["enable_seqscan", "enable_hashjoin", "enable_mergejoin", "enable_bitmapscan"], "off")
            if hot
            else {}
        )
        if hot:
            settings["plan_cache_mode"] = "force_generic_plan"
        for _ in range(100):
            try:
                return await asyncpg.connect(host="127.0.0.1", port=self.port, user="postgres", database=database,
                                             server_settings=settings)  # fmt: skip
            except (OSError, asyncpg.CannotConnectNowError):
                await asyncio.sleep(0.05)
        raise RuntimeError("Postgres did not start")

    def cpu(self):
        t = self.ps.cpu_times()
        total = t.children_user + t.children_system
        for child in self.ps.children():
            try:
                c = child.cpu_times()
                total += c.user + c.system
            except psutil.NoSuchProcess:
                pass
        return total


def uuid7(ms):
    return uuid.UUID(int=(ms << 80) | 0x7 << 76 | int.from_bytes(os.urandom(9), "big") & ((1 << 76) - 1)
                     & ~(0x3 << 62) | 0x2 << 62)  # fmt: skip


def bound_of(day):
    ms = int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp() * 1000)
    return uuid.UUID(int=ms << 80)


class Layout:
    def __init__(self, name):
        self.name = name
        self.kind, _, suffix = name.partition("+")
        self.cursor = suffix == "c"
        self.wide = self.kind == "0"
        self.inline = self.kind in ("0", "A2")
        self.due = self.kind.startswith("B")
        self.leases = self.kind == "B2"
        self.rotating = self.kind == "B1R"

    def ddl(self):
        details = "payload jsonb, tags text[], created_at timestamptz, trace text"
        lease = "claim_id uuid, lease_until timestamptz, worker text"
        identity = "queue text NOT NULL, task text NOT NULL, state smallint NOT NULL, priority smallint NOT NULL"
        counts = "fence int NOT NULL, attempt int NOT NULL, attempts_used int NOT NULL, max_attempts int NOT NULL"
        instants = "due_at timestamptz, enqueued_at timestamptz, started_at timestamptz"
        autovacuum = "autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_threshold=5000"
        fill = 60 if self.due else 85
        sql = [
            f"""CREATE TABLE jobs (id uuid PRIMARY KEY, {identity}, {counts}, {instants}, timeout_ms int,
                idempotency_key text{"" if self.leases else ", " + lease}{", " + details if self.inline else ""}
                {", finished_at timestamptz, result jsonb" if self.wide else ""})
                WITH (fillfactor={fill}, {autovacuum})""",
            "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text, job_ids uuid[], "
            "fences int[], created_at timestamptz DEFAULT clock_timestamp())",
            "CREATE TABLE completions (key text PRIMARY KEY, job_id uuid, at timestamptz)",
            "CREATE TABLE attempts (job_id uuid, fence int, attempt int, outcome smallint, worker text, started_at "
            "timestamptz, finished_at timestamptz, error text, PRIMARY KEY (job_id, fence, finished_at)) "
            "PARTITION BY RANGE (finished_at)",
        ]
        partitioned = {"attempts": "time"}
        if not self.wide:
            sql.append(f"CREATE TABLE finished_jobs (id uuid, {identity}, {counts}, {instants}, idempotency_key text, "
                       f"worker text, finished_at timestamptz, result jsonb {', ' + details if self.inline else ''}, "
                       "PRIMARY KEY (id, finished_at)) PARTITION BY RANGE (finished_at)")  # fmt: skip
            partitioned["finished_jobs"] = "time"
        if not self.inline:
            sql.append(f"CREATE TABLE job_details (job_id uuid PRIMARY KEY, {details}) PARTITION BY RANGE (job_id)")
            partitioned["job_details"] = "id"
        if self.due:
            slot = " PARTITION BY LIST (slot)" if self.rotating else f" WITH ({autovacuum})"
            sql.append("CREATE TABLE due (queue text NOT NULL, priority smallint NOT NULL, due_at timestamptz NOT "
                       f"NULL, job_id uuid NOT NULL, fence int NOT NULL, slot smallint NOT NULL){slot}")  # fmt: skip
            sql.append("CREATE INDEX ON due (queue, priority, due_at)")
            if self.rotating:
                sql += [
                    f"CREATE TABLE due_{i} PARTITION OF due FOR VALUES IN ({i}) WITH ({autovacuum})" for i in (0, 1)
                ]
        else:
            sql.append(f"CREATE INDEX ON jobs (queue, priority, due_at, id) WHERE state = {SCHEDULED}")
        if self.leases:
            sql.append("CREATE TABLE leases (job_id uuid PRIMARY KEY, fence int, claim_id uuid, worker text, "
                       f"lease_until timestamptz) WITH (fillfactor=50, {autovacuum})")  # fmt: skip
        elif self.wide:
            sql.append(f"CREATE INDEX ON jobs (worker) WHERE state = {RUNNING}")
        else:  # not "WHERE state = ...": a predicate's columns count as indexed, so every transition would lose HOT
            sql.append("CREATE INDEX ON jobs (worker) WHERE worker IS NOT NULL")
        today = dt.datetime.now(dt.UTC).date()
        for table, by in partitioned.items():
            for d in range(-30, 3):
                a, b = today + dt.timedelta(d), today + dt.timedelta(d + 1)
                lo, hi = (a, b) if by == "time" else (bound_of(a), bound_of(b))
                sql.append(f"CREATE TABLE {table}_{a:%Y%m%d} PARTITION OF {table} FOR VALUES FROM ('{lo}') TO ('{hi}')")
        return sql

    def insert(self, source, due):
        """`source`: rows (id, queue, task, priority, due_at, payload)."""
        ctes = [f"s AS MATERIALIZED ({source})"]
        extra = ", payload, tags, created_at" if self.inline else ""
        values = ", payload, '{a,b}', clock_timestamp()" if self.inline else ""
        if not self.inline:
            ctes.append("d AS (INSERT INTO job_details (job_id, payload, tags, created_at) "
                        "SELECT id, payload, '{a,b}', clock_timestamp() FROM s)")  # fmt: skip
        if self.due:
            ctes.append("q AS (INSERT INTO due (queue, priority, due_at, job_id, fence, slot) "
                        f"SELECT queue, priority, due_at, id, 1, {due} FROM s)")  # fmt: skip
        return (f"WITH {', '.join(ctes)} INSERT INTO jobs (id, queue, task, state, priority, due_at, fence, attempt, "
                f"attempts_used, max_attempts, timeout_ms{extra}) "
                f"SELECT id, queue, task, {SCHEDULED}, priority, due_at, 1, 0, 0, 5, 60000{values} FROM s")  # fmt: skip

    def submit(self):
        return self.insert("SELECT id, 'default' AS queue, 'mail.send' AS task, 5::smallint AS priority, "
                           "coalesce($4::timestamptz, clock_timestamp()) AS due_at, payload "
                           "FROM unnest($1::uuid[], $2::jsonb[]) s(id, payload) WHERE $3::int IS NOT NULL", "$3")  # fmt: skip

    def release(self):
        # A sub-select makes the clock one value: clock_timestamp() itself is volatile and can't be an index condition.
        scan = """SELECT {columns} FROM generate_series(0, 9) p(n) CROSS JOIN LATERAL (
                SELECT {inner} FROM {table} WHERE queue = $1 AND priority = p.n::smallint {state}
                AND due_at <= (SELECT clock_timestamp()) AND due_at >= ($3::timestamptz[])[p.n + 1]
                ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED) j LIMIT $2"""
        if self.due:
            pick = scan.format(columns="j.*", inner="tableoid AS t, ctid AS c, job_id, fence", table="due", state="")
            ctes = f"""picked AS MATERIALIZED ({pick}),
                gone AS (DELETE FROM due USING picked WHERE due.ctid = picked.c AND due.tableoid = picked.t),
                locked AS MATERIALIZED (SELECT j.id, j.fence, j.state, picked.fence AS ticket
                    FROM picked JOIN jobs j ON j.id = picked.job_id ORDER BY j.id FOR UPDATE OF j)"""
            guard = f"AND k.fence = k.ticket AND k.state = {SCHEDULED}"
        else:
            pick = scan.format(columns="j.id", inner="id", table="jobs", state=f"AND state = {SCHEDULED}")
            ctes, guard = f"locked AS MATERIALIZED ({pick})", ""
        return f"""WITH {ctes},
            moved AS (UPDATE jobs SET state = {ENQUEUED}, fence = jobs.fence + 1, enqueued_at = clock_timestamp()
                FROM locked k WHERE jobs.id = k.id {guard} RETURNING jobs.id, jobs.fence, jobs.due_at),
            g AS MATERIALIZED (SELECT array_agg(id) AS ids, array_agg(fence) AS fences, max(due_at) AS due_at FROM moved),
            o AS (INSERT INTO outbox (queue, job_ids, fences) SELECT $1, ids, fences FROM g WHERE ids IS NOT NULL
                RETURNING id)
            SELECT o.id AS outbox, g.* FROM g, o"""

    def claim(self):
        lease = (
            "" if self.leases else (", claim_id = $3, worker = $4, lease_until = clock_timestamp() + interval '15 s'")
        )
        payload = "moved.payload" if self.inline else "d.payload"
        # $5 and $6 bound the ids, so that all but the batch's own partitions are pruned when the plan starts
        join = "" if self.inline else "JOIN job_details d ON d.job_id = moved.id AND d.job_id BETWEEN $5 AND $6"
        leases = (
            (
                """l AS (INSERT INTO leases (job_id, fence, claim_id, worker, lease_until)
            SELECT id, fence, $3, $4, clock_timestamp() + interval '15 s' FROM moved),"""
            )
            if self.leases
            else ""
        )
        return f"""WITH locked AS MATERIALIZED (SELECT j.id, j.fence, j.state, t.fence AS ticket
                FROM unnest($1::uuid[], $2::int[]) t(id, fence) JOIN jobs j ON j.id = t.id ORDER BY j.id FOR UPDATE OF j),
            moved AS (UPDATE jobs SET state = {RUNNING}, fence = jobs.fence + 1, attempt = attempt + 1,
                attempts_used = attempts_used + 1, started_at = clock_timestamp() {lease}
                FROM locked k WHERE jobs.id = k.id AND k.fence = k.ticket AND k.state = {ENQUEUED} RETURNING jobs.*),
            {leases} used AS (SELECT $3::uuid, $4::text, $5::uuid, $6::uuid)
            SELECT moved.id, moved.fence, task, attempt, max_attempts, timeout_ms, idempotency_key, {payload}
            FROM moved {join}"""

    def heartbeat(self):
        table, key = ("leases", "job_id") if self.leases else ("jobs", "id")
        return f"""WITH locked AS MATERIALIZED (SELECT j.{key} AS id, j.fence, j.claim_id, t.fence AS f
                FROM unnest($1::uuid[], $2::int[]) t(id, fence) JOIN {table} j ON j.{key} = t.id
                ORDER BY j.{key} FOR UPDATE OF j SKIP LOCKED)
            UPDATE {table} x SET lease_until = clock_timestamp() + interval '15 s' FROM locked k
            WHERE x.{key} = k.id AND k.fence = k.f AND k.claim_id = $3 RETURNING x.{key}"""

    def complete(self):
        leases = "JOIN leases l ON l.job_id = j.id" if self.leases else ""
        owner = "l" if self.leases else "j"
        worker = "(SELECT $5::text)" if self.leases else "worker"
        locked = f"""locked AS MATERIALIZED (SELECT j.id, j.fence, j.state, {owner}.claim_id, t.fence AS f, t.result
            FROM unnest($1::uuid[], $2::int[], $4::jsonb[]) t(id, fence, result) JOIN jobs j ON j.id = t.id {leases}
            ORDER BY j.id FOR UPDATE OF {"j, l" if self.leases else "j"})"""
        guard = "jobs.id = k.id AND k.fence = k.f AND k.claim_id = $3"
        if self.wide:
            move = f"""UPDATE jobs SET state = {SUCCEEDED}, fence = jobs.fence + 1, finished_at = clock_timestamp(),
                result = k.result, claim_id = NULL, lease_until = NULL FROM locked k WHERE {guard}
                RETURNING jobs.id, jobs.fence, attempt, worker, started_at, finished_at"""
            finish = ""
        else:
            move = (f"DELETE FROM jobs USING locked k WHERE {guard} RETURNING jobs.*, clock_timestamp() AS finished_at, "
                    "k.result AS result")  # fmt: skip
            details = ", payload, tags, created_at, trace" if self.inline else ""
            columns = (
                "queue, task, {}, priority, {}, attempt, attempts_used, max_attempts, due_at, enqueued_at, started_at"
            )
            finish = (f"f AS (INSERT INTO finished_jobs (id, {columns.format('state', 'fence')}, idempotency_key, worker, "
                      f"finished_at, result{details}) SELECT id, {columns.format(SUCCEEDED, 'fence + 1')}, "
                      f"idempotency_key, {worker}, finished_at, result{details} FROM moved),")  # fmt: skip
        free = "z AS (DELETE FROM leases USING moved WHERE leases.job_id = moved.id)," if self.leases else ""
        return f"""WITH {locked}, moved AS ({move}), {finish} {free}
            a AS (INSERT INTO attempts (job_id, fence, attempt, outcome, worker, started_at, finished_at)
                SELECT id, fence, attempt, 0, {worker}, started_at, finished_at FROM moved),
            c AS (INSERT INTO completions (key, job_id, at) SELECT id::text, id, finished_at FROM moved
                ON CONFLICT DO NOTHING)
            SELECT id FROM moved WHERE $5::text IS NOT NULL"""


class Run:
    def __init__(self, server, layout, situation, jobs, width=CONNECTIONS):
        self.width = width
        self.server, self.layout, self.situation, self.jobs = server, layout, situation, jobs
        self.times = {k: [] for k in KINDS}
        self.bounds, self.swept = [LONG_AGO] * 10, time.monotonic()
        self.submitted = self.completed = self.busy = 0
        self.marks, self.slot, self.rotations, self.last_sweep = [], 0, 0, []

    async def call(self, kind, statement, *args, full=True):
        start = time.perf_counter()
        rows = await statement.fetch(*args)
        if full:
            self.times[kind].append((time.perf_counter() - start) * 1000)
        return rows

    def payload(self, n):
        size = 256 * 1024 if self.situation == "large" and n % 100 == 0 else 200
        return json.dumps({"to": "someone@example.org", "n": n, "body": os.urandom((size - 60) // 2).hex()})

    async def submit(self, statements, due_at):
        ms = time.time_ns() // 1_000_000
        ids = sorted(uuid7(ms) for _ in range(BATCH))
        payloads = [self.payload(self.submitted + i) for i in range(BATCH)]
        self.submitted += BATCH
        await self.call("submit", statements["submit"], ids, payloads, self.slot, due_at)

    async def worker(self, connection, number, due_at):
        statements = {k: await connection.prepare(getattr(self.layout, k)()) for k in KINDS}
        outbox, beat = [], 0
        while self.completed < self.jobs:
            if self.submitted < self.jobs + 1000:
                await self.submit(statements, due_at)
            sweep = False
            if self.layout.cursor and time.monotonic() - self.swept > CURSOR_SWEEP:
                self.swept, sweep = time.monotonic(), True
            start = time.perf_counter()
            rows = await statements["release"].fetch("default", BATCH, [LONG_AGO] * 10 if sweep else self.bounds)
            elapsed = (time.perf_counter() - start) * 1000
            if sweep:
                self.last_sweep.append(round(elapsed, 1))
            if not rows:
                await asyncio.sleep(0.001)
                continue
            row = rows[0]
            if len(row["ids"]) == BATCH and not sweep:
                self.times["release"].append(elapsed)
            if self.layout.cursor:
                self.bounds[5] = max(self.bounds[5], row["due_at"] - dt.timedelta(seconds=CURSOR_LAG))
            outbox.append(row["outbox"])
            if len(outbox) == 10:
                await connection.execute("DELETE FROM outbox WHERE id = ANY($1)", outbox)
                outbox = []
            ids, claim = row["ids"], uuid.uuid4()
            full = len(ids) == BATCH
            name = f"worker-{number}"
            held = await self.call(
                "claim", statements["claim"], ids, row["fences"], claim, name, min(ids), max(ids), full=full
            )
            assert len(held) == len(ids), (len(held), len(ids))
            ids, fences = [r["id"] for r in held], [r["fence"] for r in held]
            beat += 1
            if beat % 5 == 0:
                got = await self.call("heartbeat", statements["heartbeat"], ids, fences, claim, full=full)
                self.busy += len(ids) - len(got)
            done = await self.call(
                "complete", statements["complete"], ids, fences, claim, ['{"ok": true}'] * len(ids), name, full=full
            )
            assert len(done) == len(ids)
            self.completed += len(done)
            self.marks.append((time.perf_counter(), self.completed))

    async def rotate(self, connection):
        await connection.execute("SET lock_timeout = '100ms'")
        while True:
            await asyncio.sleep(2)
            other = 1 - self.slot
            try:
                async with connection.transaction():
                    await connection.execute(f"LOCK TABLE due_{other} IN ACCESS EXCLUSIVE MODE")
                    if await connection.fetchval(f"SELECT EXISTS (SELECT FROM due_{other})"):
                        continue
                    await connection.execute(f"TRUNCATE due_{other}")
                self.slot, self.rotations = other, self.rotations + 1
            except asyncpg.LockNotAvailableError:
                pass

    async def seed(self, connection, count):
        """Due jobs behind the ones pushed through: half of a lower priority, half of the same one, due later."""
        source = f"""SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 3600000 + i / 1000), 12, '0') || '7' ||
            substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid AS id, 'default' AS queue,
            'mail.send' AS task, (CASE i % 2 WHEN 0 THEN 9 ELSE 5 END)::smallint AS priority,
            now() - interval '1 hour' + i * interval '1 ms' AS due_at,
            jsonb_build_object('to', 'someone@example.org', 'body', repeat(md5(i::text), 5)) AS payload
            FROM generate_series(1, {count}) i"""
        await connection.execute(self.layout.insert(source, "0"))

    async def run(self):
        admin = await self.server.connect()
        await admin.execute("DROP DATABASE IF EXISTS bench WITH (FORCE)")
        await admin.execute("CREATE DATABASE bench")
        control = await self.server.connect("bench")
        for sql in self.layout.ddl():
            await control.execute(sql)
        due_at = None
        if self.situation in ("backlog", "backlog+held"):
            if self.situation == "backlog":
                due_at = dt.datetime.now(dt.UTC) - dt.timedelta(hours=2)
            else:  # one behind the other, all before the backlog
                due_at = None
            await self.seed(control, 1_000_000)
            await control.execute("VACUUM ANALYZE")
        await control.execute("CHECKPOINT")
        connections = [await self.server.connect("bench", hot=True) for _ in range(self.width)]
        first = await connections[0].prepare(self.layout.submit())
        ahead = self.jobs + 1000 if self.situation == "drain" else 1000
        for _ in range(ahead // BATCH):
            await self.submit({"submit": first}, due_at)
        holder = None
        if "held" in self.situation:
            holder = await self.server.connect("bench")
            await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox")
        for times in self.times.values():
            times.clear()
        lsn, cpu, start = await admin.fetchval("SELECT pg_current_wal_lsn()"), self.server.cpu(), time.perf_counter()
        rotator = asyncio.create_task(self.rotate(await self.server.connect("bench"))) if self.layout.rotating else None
        await asyncio.gather(*(self.worker(c, i, due_at) for i, c in enumerate(connections)))
        elapsed, cpu = time.perf_counter() - start, self.server.cpu() - cpu
        wal = await admin.fetchval("SELECT pg_current_wal_lsn() - $1::pg_lsn", lsn)
        if rotator:
            rotator.cancel()
        for c in connections:
            await c.close()  # a backend's last statistics are sent when it ends
        await asyncio.sleep(0.2)
        hot = await control.fetchval("SELECT round(100.0 * n_tup_hot_upd / greatest(n_tup_upd, 1)) FROM "
                                     "pg_stat_user_tables WHERE relname = 'jobs'")  # fmt: skip
        sizes = {r[0]: [round(r[1] / 1e6, 1), round(r[2] / 1e6, 1)] for r in await control.fetch(
            "SELECT regexp_replace(relname, '_(\\d{8}|[01])$', ''), sum(pg_table_size(oid))::float8, sum(pg_indexes_size(oid))::float8 "
            "FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace GROUP BY 1 ORDER BY 1")}  # fmt: skip
        result = {
            "layout": self.layout.name, "situation": self.situation, "jobs": self.completed,
            "jobs_per_s": round(self.completed / elapsed), "cpu_us": round(cpu / self.completed * 1e6, 1),
            "wal_bytes": round(int(wal) / self.completed), "hot_pct": int(hot or 0), "busy": self.busy,
            "ms": {k: round(statistics.median(v), 2) if v else None for k, v in self.times.items()},
        }  # fmt: skip
        if "held" in self.situation:
            n = max(1, min(50, len(self.times["release"]) // 4))
            result["first_last"] = {k: [round(statistics.median(self.times[k][:n]), 2), round(statistics.median(self.times[k][-n:]), 2)]
                                    for k in ("release", "claim", "complete")}  # fmt: skip
            k = len(self.marks) // 10
            rate = lambda m: round((m[-1][1] - m[0][1]) / (m[-1][0] - m[0][0]))  # noqa: E731
            result["rate_first_last"] = [rate(self.marks[:k]), rate(self.marks[-k:])]
            result["sweeps_ms"], result["rotations"] = self.last_sweep, self.rotations
        result["mb_table_index"] = sizes
        for c in [control, *([holder] if holder else []), admin]:
            c.terminate()
        return result


def show(r):
    ms = r["ms"]
    text = (f"{r['layout']:5} {r['situation']:13} {r['jobs']:7} {r['jobs_per_s']:6}/s {r['cpu_us']:6.1f}us "
            f"{r['wal_bytes']:6}B hot{r['hot_pct']:3}% busy {r['busy']:3} " + " ".join(f"{k[:4]} {ms[k]}" for k in KINDS))  # fmt: skip
    if "first_last" in r:
        text += f"  first>last {r['first_last']} rate {r['rate_first_last']} sweeps {r['sweeps_ms'][-3:]} rot {r['rotations']}"
    print(text, flush=True)
    print("      " + " ".join(f"{t}:{a}+{b}" for t, (a, b) in r["mb_table_index"].items()), flush=True)


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layouts", nargs="+", default=LAYOUTS)
    parser.add_argument("--situations", nargs="+", default=["empty", "backlog", "held"],
                        choices=["empty", "backlog", "held", "backlog+held", "drain", "large"])  # fmt: skip
    parser.add_argument("--jobs", type=int, default=60_000)
    parser.add_argument("--held-jobs", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    options = parser.parse_args()
    results = []
    with Server() as server:
        for situation in options.situations:
            for name in options.layouts:
                jobs = options.held_jobs if "held" in situation else options.jobs
                result = await Run(server, Layout(name), situation, jobs, options.connections).run()
                results.append(result)
                show(result)
    print(json.dumps(results))


if __name__ == "__main__":
    try:
        import uvloop

        uvloop.install()
    except ImportError:
        pass
    asyncio.run(main())
