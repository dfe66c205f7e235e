// Stacked bars over days. The table below a chart has its figures for those who do not see it.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Series {
  name: string;
  values: number[];
}

const COLOURS = ["var(--span-model)", "var(--span-tool)", "var(--span-conn)", "var(--live)", "var(--span-wait)"];
const HEIGHT = 200;
const LEFT = 58;
const BOTTOM = 20;
const TOP = 10;

/** A round number above the largest value. */
function topOf(most: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(most, 1)));
  return power * ([1, 2, 4, 5, 10].find((step) => most <= power * step) ?? 10);
}

const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

/** `least` is the smallest top of the axis. */
export function StackedBars({
  label,
  ticks,
  series,
  least,
  format,
  axis,
}: {
  label: string;
  ticks: string[];
  series: Series[];
  least: number;
  format: (value: number) => string;
  axis: (value: number) => string;
}) {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [hovered, setHovered] = useState<number>();
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry!.contentRect.width)));
    observer.observe(ref.current!);
    return () => observer.disconnect();
  }, []);
  const totals = ticks.map((_, day) => series.reduce((sum, { values }) => sum + values[day]!, 0));
  const top = topOf(Math.max(least, ...totals));
  const step = (width - LEFT) / ticks.length;
  const y = (value: number) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const every = Math.ceil(ticks.length / Math.max(1, Math.floor(width / 90)));
  return (
    <div class="chart" ref={ref} onPointerLeave={() => setHovered(undefined)}>
      {width > 0 && (
        <svg
          viewBox={`0 0 ${width} ${HEIGHT}`}
          height={HEIGHT}
          role="img"
          aria-label={label}
          onPointerMove={(event) =>
            setHovered(Math.floor((event.clientX - event.currentTarget.getBoundingClientRect().left - LEFT) / step))
          }
        >
          {[0, 0.5, 1].map((part) => (
            <g key={part}>
              <line x1={LEFT} x2={width} y1={y(top * part)} y2={y(top * part)} stroke="var(--line)" />
              <text x={LEFT - 8} y={y(top * part) + 4} text-anchor="end">
                {axis(top * part)}
              </text>
            </g>
          ))}
          {ticks.map((tick, day) => {
            let below = 0;
            return (
              <g key={tick} opacity={hovered === undefined || hovered === day ? 1 : 0.55}>
                {series.map(({ name, values }, index) => {
                  const from = below;
                  below += values[day]!;
                  return (
                    values[day]! > 0 && (
                      <rect
                        key={name}
                        x={LEFT + day * step + step * 0.12}
                        width={step * 0.76}
                        y={y(below)}
                        height={Math.max(0, y(from) - y(below) - (index ? 1 : 0))}
                        rx={1.5}
                        fill={COLOURS[index % COLOURS.length]}
                      />
                    )
                  );
                })}
                {day % every === 0 && (
                  <text x={LEFT + (day + 0.5) * step} y={HEIGHT - 4} text-anchor="middle">
                    {dayFormat.format(new Date(tick))}
                  </text>
                )}
              </g>
            );
          })}
        </svg>
      )}
      <div class="legend">
        {series.map(({ name, values }, index) => (
          <span key={name}>
            <i style={{ background: COLOURS[index % COLOURS.length] }} />
            {name}
            {hovered !== undefined && values[hovered] !== undefined && <b class="num">{format(values[hovered])}</b>}
          </span>
        ))}
        {hovered !== undefined && totals[hovered] !== undefined && (
          <span class="num">
            {dayFormat.format(new Date(ticks[hovered]!))} · {format(totals[hovered])}
          </span>
        )}
      </div>
    </div>
  );
}
