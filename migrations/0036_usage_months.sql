-- Sums of usage by month: the sums of usage_day over the days of the month. A month has the number of its first day, in days
-- since 1970.
CREATE TABLE usage_month (
    org_id {TEXT} NOT NULL,
    month BIGINT NOT NULL,
    workflow {TEXT} NOT NULL,
    model {TEXT} NOT NULL,
    key_id {TEXT} NOT NULL,
    runs BIGINT NOT NULL,
    succeeded BIGINT NOT NULL,
    cost_micros BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cache_read_tokens BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    model_calls BIGINT NOT NULL,
    tool_calls BIGINT NOT NULL,
    PRIMARY KEY (org_id, month, workflow, model, key_id)
){CLUSTERED};
-- The first day of a month by the usual arithmetic of the Gregorian calendar, with years that begin in March. A sum stops at
-- the largest integer.
INSERT INTO usage_month (org_id, month, workflow, model, key_id, runs, succeeded, cost_micros, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, model_calls, tool_calls)
SELECT org_id, day - day_of_month, workflow, model, key_id,
    CASE WHEN CAST(SUM(runs / 4294967296) AS BIGINT) + CAST(SUM(runs % 4294967296) AS BIGINT) / 4294967296 > 2147483647
    THEN 9223372036854775807
    ELSE CAST(SUM(runs / 4294967296) AS BIGINT) * 4294967296 + CAST(SUM(runs % 4294967296) AS BIGINT) END,
    CASE WHEN CAST(SUM(succeeded / 4294967296) AS BIGINT) + CAST(SUM(succeeded % 4294967296) AS BIGINT) / 4294967296 > 2147483647
    THEN 9223372036854775807
    ELSE CAST(SUM(succeeded / 4294967296) AS BIGINT) * 4294967296 + CAST(SUM(succeeded % 4294967296) AS BIGINT) END,
    CASE WHEN CAST(SUM(cost_micros / 4294967296) AS BIGINT) + CAST(SUM(cost_micros % 4294967296) AS BIGINT) / 4294967296 > 2147483647
    THEN 9223372036854775807
    ELSE CAST(SUM(cost_micros / 4294967296) AS BIGINT) * 4294967296 + CAST(SUM(cost_micros % 4294967296) AS BIGINT) END,
    CASE WHEN CAST(SUM(input_tokens / 4294967296) AS BIGINT) + CAST(SUM(input_tokens % 4294967296) AS BIGINT) / 4294967296 > 2147483647
    THEN 9223372036854775807
    ELSE CAST(SUM(input_tokens / 4294967296) AS BIGINT) * 4294967296 + CAST(SUM(input_tokens % 4294967296) AS BIGINT) END,
    CASE WHEN CAST(SUM(output_tokens / 4294967296) AS BIGINT) + CAST(SUM(output_tokens % 4294967296) AS BIGINT) / 4294967296 > 2147483647
    THEN 9223372036854775807
    ELSE CAST(SUM(output_tokens / 4294967296) AS BIGINT) * 4294967296 + CAST(SUM(output_tokens % 4294967296) AS BIGINT) END,
    CASE WHEN CAST(SUM(cache_read_tokens / 4294967296) AS BIGINT) + CAST(SUM(cache_read_tokens % 4294967296) AS BIGINT) / 4294967296 > 2147483647
    THEN 9223372036854775807
    ELSE CAST(SUM(cache_read_tokens / 4294967296) AS BIGINT) * 4294967296 + CAST(SUM(cache_read_tokens % 4294967296) AS BIGINT) END,
    CASE WHEN CAST(SUM(cache_write_tokens / 4294967296) AS BIGINT) + CAST(SUM(cache_write_tokens % 4294967296) AS BIGINT) / 4294967296 > 2147483647
    THEN 9223372036854775807
    ELSE CAST(SUM(cache_write_tokens / 4294967296) AS BIGINT) * 4294967296 + CAST(SUM(cache_write_tokens % 4294967296) AS BIGINT) END,
    CASE WHEN CAST(SUM(model_calls / 4294967296) AS BIGINT) + CAST(SUM(model_calls % 4294967296) AS BIGINT) / 4294967296 > 2147483647
    THEN 9223372036854775807
    ELSE CAST(SUM(model_calls / 4294967296) AS BIGINT) * 4294967296 + CAST(SUM(model_calls % 4294967296) AS BIGINT) END,
    CASE WHEN CAST(SUM(tool_calls / 4294967296) AS BIGINT) + CAST(SUM(tool_calls % 4294967296) AS BIGINT) / 4294967296 > 2147483647
    THEN 9223372036854775807
    ELSE CAST(SUM(tool_calls / 4294967296) AS BIGINT) * 4294967296 + CAST(SUM(tool_calls % 4294967296) AS BIGINT) END
FROM (
    SELECT of_year.*, day_of_year - (153 * ((5 * day_of_year + 2) / 153) + 2) / 5 AS day_of_month
    FROM (
        SELECT of_era.*, day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100) AS day_of_year
        FROM (
            SELECT of_day.*, (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365 AS year_of_era
            FROM (SELECT d.*, (d.day + 719468) % 146097 AS day_of_era FROM usage_day d) of_day
        ) of_era
    ) of_year
) of_month
GROUP BY org_id, day - day_of_month, workflow, model, key_id;
