"""Names of all settings, for a process that builds only its own tables. Written by `make schemas`."""

from typing import Final

_NAMES: Final = """
redis_url redis_username redis_password redis_ca_file redis_cert_file redis_key_file data_dir prefix partitions splits
dedupe_window_s interactions_cap interactions_bytes producer producer.sample producer.sample_by producer.policy
producer.block_s producer.queue producer.flush_s producer.resend_s hash_user_ids user_id_salt feedback_window_s labeler
evaluators profile claim_profile metrics covariates local local.model judge judge.timeout_s judge.attempts
judge.max_in_flight judge.requests_per_minute judge.breaker_failures judge.breaker_pause_s judge.spend_per_hour_usd
judge.spend_per_day_usd judge.cache_ttl_s judge.model judge.base_url judge.api_key judge.families judge.criteria
judge.criteria_call judge.reasons judge.language judge.prompt judge.grammar judge.window_tokens judge.structured
judge.temperature judge.answer_tokens judge.context_tokens judge.redact judge.redact_function judge.redact_limit_s
judge.repairs judge.repeat_share judge.sentinels judge.sentinels_every_s judge.tokens_per_minute judge.over_budget
judge.prices models models.support models.support_file models.support_digest models.support_labels
models.support_threshold models.support_prompt models.support_calibration models.relevance models.relevance_file
models.relevance_digest models.relevance_labels models.relevance_threshold models.relevance_calibration
models.similarity models.similarity_file models.similarity_digest models.publish models.languages models.max_tokens
models.batch models.batch_tokens models.threads models.provider models.cache_dir models.hub_url models.hub_token
services cascade cascade.proxy cascade.reference cascade.rate cascade.segment_rates cascade.below cascade.boost
cascade.boost_s cascade.middle cascade.middle_rate cascade.middle_below cascade.salt cascade.when_unavailable
worker_processes worker_batch worker_concurrency worker_min_idle_s max_deliveries confidence aggregator_batch
commit_interval_s lease_s estimates_cap estimates_interval_s events_cap events_keep alert_cap dead_letters_bytes
recorder recorder.url recorder.storage_options recorder.format recorder.kinds recorder.roll_s recorder.keep_days
recorder.redact recorder.redact_function recorder.redact_limit_s specimens specimens.enabled specimens.offline
specimens.keep_s specimens.sample specimens.sample_n specimens.newest_n specimens.worst_n specimens.count
specimens.bytes specimens.redact specimens.redact_function specimens.redact_limit_s ingest ingest.default_pipeline
ingest.pipeline_attributes ingest.question_keys ingest.answer_keys ingest.retrieval_names ingest.action_names
ingest.arguments ingest.segments ingest.version_from ingest.history ingest.settle_s ingest.quiet_s ingest.explain_s
ingest.traces_cap ingest.traces_bytes serve serve.host serve.port serve.grpc_port serve.tokens serve.trusted_header
serve.root_path serve.trusted_proxies serve.requests_per_s serve.bytes_per_s serve.body_bytes serve.bodies_bytes
serve.connections bridge bridge.source bridge.alerts bridge.events bridge.estimates bridge.group bridge.batch otel
otel.endpoint otel.token otel.results otel.results_form otel.results_endpoint otel.results_headers clusters clusters.by
clusters.size clusters.block clusters.quiet_s clusters.open_cap stall stall.labeling_s stall.traffic_s stall.quiet_s
stall.absent_share stall.low_traffic segments keys_cap partition_keys_cap windows lateness_s quantiles history
history.enabled history.fine history.fine_for history.coarse history.coarse_for history.segments history.series_max
budget budget.false_alarms budget.false_discovery_rate budget.period alert_defaults alerts rules_poll_s moves
moves.enabled moves.false_per_month releases releases.enabled releases.margin releases.margin_relative releases.alpha
releases.until_s releases.severity notify notify.allow_private notify.group_wait_s notify.repeat_s notify.give_up_s
notify.storm_messages notify.timeout_s notify.public_url notify.destinations web web.operators web.texts web.session_s
web.trace_url mcp mcp.endpoint mcp.token prometheus prometheus.segments prometheus.windows prometheus.cap
prometheus.interval_s log_level http_port http_host
"""

SETTINGS: Final = tuple(_NAMES.split())
"""Every setting and table, a setting of a table as `table.setting`."""

PAIRS: Final = ("splits",)
"""Settings whose pairs may have variables of their own, such as `RAGTIDE_SPLITS_SHOP`."""
