"""Which mechanisms there are, how each is taken out, and which tests notice."""

from __future__ import annotations

from dataclasses import dataclass

STORE = "libs/mainspring/store"
WORKER = "libs/mainspring/worker"
SCHEDULER = "services/mainspring_services/scheduler"


@dataclass(frozen=True, slots=True)
class Edit:
    """In ``path``, the first ``old`` becomes ``new``."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mechanism, the edits without which it is gone, and the tests of which one at least must fail then."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


_WATCHDOG = Edit(f"{WORKER}/watchdog.py", "wait = None if until == 0 else max(until - boot_time(), 0)", "wait = None")
_FENCE = Edit(
    f"{STORE}/queries/settle.sql",
    "WHERE live_jobs.id = asked.id AND live_jobs.fence = asked.fence AND live_jobs.claim_id = asked.claim_id",
    "WHERE live_jobs.id = asked.id",
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the completion's unique key",
        (
            Edit(
                f"{STORE}/migrations/0001_initial.sql",
                "    idempotency_key text PRIMARY KEY,\n    job_id uuid NOT NULL,\n    fence bigint NOT NULL,",
                "    idempotency_key text NOT NULL,\n    job_id uuid NOT NULL,\n    fence bigint NOT NULL,",
            ),
            Edit(f"{STORE}/queries/settle.sql", "    ON CONFLICT (idempotency_key) DO NOTHING\n", ""),
        ),
        ("tests/integration/test_settle.py::test_one_key_is_complete_once_even_within_one_batch",),
    ),
    Mutant(
        "the confirm",
        (
            Edit(
                "libs/mainspring/broker/connection.py",
                "publisher_confirms=confirms, on_return_raises=confirms",
                "publisher_confirms=False, on_return_raises=False",
            ),
        ),
        ("tests/integration/test_network.py::test_d04_a_confirm_that_never_comes_is_an_unknown_within_the_timeout",),
    ),
    Mutant(
        "the mandatory flag",
        (Edit("libs/mainspring/broker/publisher.py", "mandatory=True", "mandatory=False"),),
        ("tests/integration/test_broker.py::test_d03_a_message_that_nothing_is_bound_to_raises",),
    ),
    Mutant(
        "the ticket at the claim",
        (
            Edit(
                f"{STORE}/queries/claims.sql", "WHEN locked.fence <> locked.ticket OR locked.state", "WHEN locked.state"
            ),
        ),
        ("tests/integration/test_counterexamples_messages.py::test_a2_a_stale_message_claims_nothing",),
    ),
    Mutant(
        "the claim id",
        (
            Edit(
                f"{WORKER}/intake.py",
                "            return await claims.claim(connection, refs, claim_id, self._worker, lease)\n",
                "            return await claims.claim(connection, refs, uuid.uuid4(), self._worker, lease)\n",
            ),
        ),
        (
            "tests/integration/test_counterexamples_messages.py"
            "::test_a7_a_claim_whose_reply_was_lost_is_asked_again_and_its_handler_starts",
        ),
    ),
    Mutant(
        "what only a release judges, at the insert of a lent queue's job",
        (
            Edit(
                f"{STORE}/queries/jobs.sql",
                " ON asked.queue = lender.queue AND asked.is_open",
                " ON asked.queue = lender.queue",
            ),
        ),
        ("tests/integration/test_lending.py::test_what_a_release_has_to_judge_waits_for_one",),
    ),
    Mutant(
        "what only a release judges, at the insert of a fire's job",
        (
            Edit(
                f"{STORE}/queries/release.sql",
                "WHERE NOT queues.paused AND queues.fair_by IS NULL AND queues.backs_off_until <= clock_timestamp()",
                "WHERE true",
            ),
        ),
        ("tests/integration/test_release_fired.py::test_what_a_release_has_to_judge_waits_for_one",),
    ),
    Mutant(
        "the room that fires leave to releases",
        (
            Edit(
                "services/mainspring_services/scheduler/release_fired.py",
                "        return (half - counted.at_most(queue.last_id)) // SHARE",
                "        return half - counted.at_most(queue.last_id)",
            ),
        ),
        ("tests/integration/test_release_fired.py::test_fires_of_many_schedulers_leave_half_of_a_window_to_releases",),
    ),
    Mutant(
        "what may have come to the broker since it was counted",
        (
            Edit(
                f"{STORE}/migrations/0017_known_in_broker.sql",
                "in_broker := known + (counted_at - known_at) * batch_size;",
                "in_broker := known;",
            ),
        ),
        ("tests/integration/test_release.py::test_schedulers_that_count_now_and_then_never_fill_more_than_the_window",),
    ),
    Mutant(
        "taking a loan back",
        (
            Edit(
                f"{SCHEDULER}/lending.py",
                "        if released.has_lines or released.is_limited_by_window:\n",
                "        if False:\n",
            ),
        ),
        ("tests/integration/test_lending.py::test_a_scheduler_lends_after_a_release_that_left_nothing",),
    ),
    Mutant(
        "publishing the outbox again",
        (
            Edit(
                f"{SCHEDULER}/republish_outbox.py",
                "        if batches:\n            await self.releases.publish(batches)\n",
                "        if batches:\n",
            ),
        ),
        ("tests/integration/test_counterexamples_messages.py::test_a9_another_scheduler_publishes_what_was_committed",),
    ),
    Mutant(
        "the runner's trust window",
        (_WATCHDOG,),
        (
            "tests/integration/test_fleet_faults.py"
            "::test_the_runner_of_a_frozen_supervisor_ends_before_the_lease_can_be_taken",
        ),
    ),
    Mutant(
        "the fence of a settlement, and the trust window that hides it",
        (_FENCE, _WATCHDOG),
        (
            "tests/integration/test_settle.py::test_a_write_with_an_old_fence_or_another_claim_id_changes_nothing",
            "tests/integration/test_fleet_faults.py::test_w08_a_zombie_that_comes_back_changes_nothing",
        ),
    ),
    Mutant(
        "the lock of a limit's row at admission",
        (
            Edit(
                f"{STORE}/queries/limits.sql",
                "ORDER BY id\nFOR NO KEY UPDATE\n",
                "ORDER BY id\n",
            ),
        ),
        (
            "tests/integration/test_admission.py::test_dispatchers_side_by_side_never_admit_more_than_the_limit",
            "tests/integration/test_counterexamples.py"
            "::test_k1_k2_a_frozen_dispatcher_and_its_successor_admit_one_job_of_two",
        ),
    ),
    Mutant(
        "the lock of a rate's row at the claim",
        (
            Edit(
                f"{STORE}/migrations/0008_limits.sql",
                "WHERE rates.limit_id = one.limit_id AND rates.key = one.key FOR UPDATE\n",
                "WHERE rates.limit_id = one.limit_id AND rates.key = one.key\n",
            ),
        ),
        ("tests/integration/test_rates.py::test_claims_side_by_side_take_no_more_than_the_tokens_that_there_are",),
    ),
    Mutant(
        "the claim's refusal of what was not admitted",
        (
            Edit(
                f"{STORE}/queries/claims.sql",
                "WHEN locked.state <> 'admitted' AND concurrency.is_limited THEN 'limited'\n",
                "",
            ),
        ),
        ("tests/integration/test_claims.py::test_every_other_end_is_told",),
    ),
    Mutant(
        "the limits' locks at a release of lines",
        (
            Edit(
                f"{STORE}/lines.py",
                "    await limits.lock_concurrency(connection, queue, {one.line.task for one in served})\n",
                "",
            ),
        ),
        ("tests/integration/test_lines.py::test_two_queues_under_one_limit_are_released_one_after_the_other",),
    ),
    Mutant(
        "the slot that a job keeps in its order",
        (Edit("libs/mainspring/domain/limits.py", "has -= self._kept.get(bucket, 0)", "has -= 0"),),
        ("tests/integration/test_strategies.py::test_in_order_a_retry_comes_before_those_behind_it",),
    ),
    Mutant(
        "who is on the way out takes no place among the newest",
        (Edit(f"{STORE}/queries/strategies.sql", " AND NOT live_jobs.cancel_requested", ""),),
        ("tests/integration/test_strategies_model.py::test_whatever_happens_it_is_as_in_the_plainest_model",),
    ),
    Mutant(
        "the call to a loop that has something to do",
        (Edit(f"{SCHEDULER}/agenda.py", "            self.loops[name].wake.set()\n", "            pass\n"),),
        ("tests/integration/test_agenda.py::test_every_loop_that_waits_is_on_the_agenda_and_is_woken",),
    ),
    Mutant(
        "the place of a unique job",
        (Edit("libs/mainspring/runtime/unique.py", "if one.counts(holder.state, holder.age) and", "if False and"),),
        ("tests/integration/test_unique.py::test_of_many_at_one_moment_one_is_made",),
    ),
    Mutant(
        "a canary's wait for what it took",
        (
            Edit(
                "libs/mainspring/domain/bulk.py", "        if progress.pending:\n            return Move(0, step)\n", ""
            ),
        ),
        ("tests/integration/test_bulk.py::test_a_canary_stops_by_itself_when_too_many_fail_again",),
    ),
    Mutant(
        "a claim's look at its circuit",
        (Edit(f"{STORE}/queries/claims.sql", "WHEN concurrency.is_shut THEN 'circuit'", ""),),
        ("tests/integration/test_circuits.py::test_an_open_circuit_lets_nothing_start_whatever_way_it_came",),
    ),
    Mutant(
        "a failure that doesn't count while its circuit isn't closed",
        (
            Edit(
                "libs/mainspring/domain/settlement.py",
                "if standing.is_circuit_broken and not ending.is_permanent:",
                "if False:",
            ),
        ),
        ("tests/integration/test_circuits.py::test_an_outage_costs_no_job_its_attempts",),
    ),
    Mutant(
        "room for a job that takes several slots",
        (
            Edit(
                "services/mainspring_services/worker/claim_jobs.py",
                "if opens_in is None and left > 0 and self.intake.is_worth_room():",
                "if False:",
            ),
        ),
        ("tests/integration/test_worker_limits.py::test_a_job_that_takes_several_slots_is_not_passed_by_for_ever",),
    ),
    Mutant(
        "the end of a batch's transaction for all when one can't complete",
        (Edit(f"{WORKER}/handler_transaction.py", "if not refused:", "if True:"),),
        ("tests/integration/test_batches.py::test_a_job_whose_effect_exists_keeps_no_other_from_its_own",),
    ),
    Mutant(
        "what survives the drop of its day's payloads",
        (Edit(f"{STORE}/retention.py", "WHERE id = ANY ($1)", "WHERE id = ANY ($1) AND false"),),
        ("tests/integration/test_retention.py::test_what_has_not_ended_and_what_is_dead_keeps_its_payload",),
    ),
    Mutant(
        "reclaim",
        (
            Edit(
                f"{SCHEDULER}/reclaim_expired.py",
                "        reclaimed = await self._database.run_in_transaction(_reclaim)\n",
                "        reclaimed: list[Reclaimed] = []\n",
            ),
        ),
        ("tests/integration/test_fleet_faults.py::test_w02_the_jobs_of_a_killed_worker_run_again_exactly_once",),
    ),
    Mutant(
        "the probe for a broker that has forgotten",
        (
            Edit(
                f"{SCHEDULER}/reconcile.py",
                "        if not missing:\n            return Pass()\n",
                "        if True:\n            return Pass()\n",
            ),
        ),
        ("tests/integration/test_broker_loss.py::test_a_wiped_broker_loses_no_job_and_runs_none_twice",),
    ),
    Mutant(
        "the hand-over of a long job's message",
        (
            Edit(
                f"{WORKER}/lease_keeper.py",
                "        await self._hand_over(attempts, answers)\n",
                "",
            ),
        ),
        ("tests/integration/test_fleet_faults.py::test_d02_a_long_job_rests_on_its_lease_and_not_on_its_message",),
    ),
)
