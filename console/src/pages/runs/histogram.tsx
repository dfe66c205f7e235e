// Runs by day above the list. Dragging over days, or a click on one, filters the list by their time.
import { useRef, useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { DAY_MS, type RunFilters } from "../../model/filters.ts";
import { columnsOf, selectedDays, type Column } from "../../model/histogram.ts";
import { dayRange } from "../../model/time.ts";
import { t } from "../../text/en.ts";

const DAYS = 30;
const HEIGHT = 44;
const texts = t.runs.histogram;

const dayOf = (time: number) => new Date(time).toISOString().slice(0, 10);

/** Dimensions of the filters that the sums of the engine have as well. */
const dimensionsOf = ({ workflow, model, key }: RunFilters) =>
  Object.entries({ workflow, model, key }).flatMap(([name, value]) => (value ? [name] : []));

function Bar({ column, most, isSelected }: { column: Column; most: number; isSelected: boolean }) {
  const height = (runs: number) => (runs ? Math.max(1.5, (runs / most) * HEIGHT) : 0);
  const others = column.runs - column.succeeded;
  return (
    <span class={`day ${isSelected ? "on" : ""}`}>
      {others > 0 && <i class="others" style={{ height: `${height(others)}px` }} />}
      <i style={{ height: `${height(column.succeeded)}px` }} />
    </span>
  );
}

export function Histogram({
  filters,
  onSelect,
}: {
  filters: RunFilters;
  onSelect: (time: Pick<RunFilters, "since" | "until">) => void;
}) {
  const by = ["day", ...dimensionsOf(filters)].join(",");
  const to = dayOf(Date.now());
  const from = dayOf(Date.now() - (DAYS - 1) * DAY_MS);
  const usage = useResource(`${from} ${to} ${by}`, (signal) =>
    call("GET /v1/usage", { query: { from, to, by }, signal }),
  );
  const box = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<[number, number]>();
  const [hovered, setHovered] = useState<number>();
  const columns = columnsOf(usage.data.value?.rows ?? [], from, DAYS, filters);
  const most = Math.max(1, ...columns.map(({ runs }) => runs));
  const selected = drag ?? selectedDays(filters, columns, Date.now());
  const [first, last] = selected ? [Math.min(...selected), Math.max(...selected)] : [-1, -1];
  const total = columns.reduce((sum, { runs }) => sum + runs, 0);

  const dayAt = (event: PointerEvent) => {
    const { left, width } = box.current!.getBoundingClientRect();
    return Math.max(0, Math.min(DAYS - 1, Math.floor(((event.clientX - left) / width) * DAYS)));
  };
  const finish = () => {
    if (!drag) return;
    setDrag(undefined);
    const end = Date.parse(columns[last]!.day) + DAY_MS;
    onSelect({ since: `${columns[first]!.day}T00:00:00.000Z`, until: new Date(end).toISOString() });
  };
  const shown = hovered === undefined ? undefined : columns[hovered];
  return (
    <section class="card histogram" aria-label={texts.label(total, DAYS)}>
      <div
        ref={box}
        class={`days ${selected ? "chosen" : ""}`}
        role="img"
        aria-label={texts.label(total, DAYS)}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          box.current!.setPointerCapture(event.pointerId);
          setDrag([dayAt(event), dayAt(event)]);
        }}
        onPointerMove={(event) => {
          setHovered(dayAt(event));
          if (drag) setDrag([drag[0], dayAt(event)]);
        }}
        onPointerLeave={() => setHovered(undefined)}
        onPointerUp={finish}
        onPointerCancel={() => setDrag(undefined)}
      >
        {columns.map((column, index) => (
          <Bar key={column.day} column={column} most={most} isSelected={!selected || (index >= first && index <= last)} />
        ))}
        {selected && (
          <span
            class="window"
            style={{ insetInlineStart: `${(first / DAYS) * 100}%`, width: `${((last - first + 1) / DAYS) * 100}%` }}
          />
        )}
      </div>
      <p class="days-text dim num">
        {shown ? (
          <>
            <b>{dayRange(shown.day)}</b> {texts.figures(shown.runs, shown.runs - shown.succeeded)}
          </>
        ) : (
          <>
            <span>{dayRange(from)}</span>
            <span>{texts.hint}</span>
            <span>{texts.today}</span>
          </>
        )}
      </p>
    </section>
  );
}
