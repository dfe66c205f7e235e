// Calls of the run by tool. A tool leads to its calls in the trace.
import type { Fold } from "../../model/fold.ts";
import { money } from "../../model/money.ts";
import { toolFigures } from "../../model/spans.ts";
import { bytes, duration } from "../../model/time.ts";
import { setQuery } from "../../router.ts";
import { runText } from "../../text/run.ts";

const texts = runText.tools;

export function Tools({ fold, now }: { fold: Fold; now: number }) {
  const figures = toolFigures(fold, now);
  const { columns } = texts;
  if (figures.length === 0)
    return (
      <div class="page">
        <p class="none dim">{texts.none}</p>
      </div>
    );
  return (
    <div class="page">
      <section class="card scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">{columns.tool}</th>
              {[
                columns.calls,
                columns.failures,
                columns.median,
                columns.longest,
                columns.total,
                columns.bytes,
                columns.cost,
              ].map((name, index) => (
                <th key={name} scope="col" class={index < 2 || index === 4 ? "r" : "r opt"}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {figures.map((one) => (
              <tr key={one.tool}>
                <td>
                  <button
                    type="button"
                    class="as-link tool-name"
                    title={texts.show(one.tool)}
                    onClick={() => setQuery({ tab: "trace", tool: one.tool }, { replace: false })}
                  >
                    <i class={one.kind} />
                    {one.tool}
                  </button>
                </td>
                <td class="r">{one.calls}</td>
                <td class={`r ${one.failures ? "bad" : "dim"}`}>{one.failures}</td>
                <td class="r opt">{duration(one.medianMs)}</td>
                <td class="r opt">{duration(one.longestMs)}</td>
                <td class="r">{duration(one.totalMs)}</td>
                <td class="r opt">{bytes(one.bytes)}</td>
                <td class="r opt">{one.costMicros ? money(one.costMicros) : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </div>
  );
}
