// Usage of the development server.

/** Usage by day and another dimension, for `days` days until `now`. */
export function usageOf(now, by, from, to) {
  const names = {
    workflow: ["price-watch", "hourly-digest", "invoice-triage", undefined],
    model: ["claude-sonnet-5-5", "claude-haiku-5-5", "gemini-3.5-flash"],
    key: ["key_01kafs6w1cefkstv6qr1ptb0mp"],
  };
  const dimension = by.find((one) => one !== "day");
  const rows = [];
  const totals = {
    cost_micros: 0,
    runs: 0,
    succeeded: 0,
    usage: {
      input_tokens: 0,
      output_tokens: 0,
      cache_read_tokens: 0,
      cache_write_tokens: 0,
      model_calls: 0,
      tool_calls: 0,
    },
  };
  for (let day = Date.parse(from); day <= Math.min(Date.parse(to), now); day += 86_400_000) {
    for (const [index, name] of (names[dimension] ?? [undefined]).entries()) {
      const wave = 1 + Math.sin(day / 86_400_000 / 2.1 + index * 1.7) * 0.45 + ((day / 86_400_000) % 7 < 2 ? -0.35 : 0);
      const figures = {
        cost_micros: Math.round((620_000 - index * 140_000) * wave),
        runs: Math.round((30 + index * 8) * wave),
        succeeded: Math.round((29 + index * 8) * wave),
        usage: {
          input_tokens: Math.round(210_000 * wave),
          output_tokens: Math.round(41_000 * wave),
          cache_read_tokens: Math.round(640_000 * wave),
          cache_write_tokens: 0,
          model_calls: 90,
          tool_calls: 140,
        },
      };
      rows.push({
        ...figures,
        ...(by.includes("day") && { day: new Date(day).toISOString().slice(0, 10) }),
        ...(dimension && name && { [dimension === "key" ? "key_id" : dimension]: name }),
      });
      for (const field of ["cost_micros", "runs", "succeeded"]) totals[field] += figures[field];
      for (const field of Object.keys(totals.usage)) totals.usage[field] += figures.usage[field];
    }
  }
  return { by, from, to, rows, totals };
}
