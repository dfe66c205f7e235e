// A list that only renders the rows in sight. All rows have the same height.
import type { ComponentChildren, Ref } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

interface RowsProps<Row> {
  rows: Row[];
  rowHeight: number;
  label: string;
  render: (row: Row, index: number) => ComponentChildren;
  /** Stays at the end as rows are added. */
  isFollowing?: boolean;
  onScrollAway?: () => void;
  /** Index that is kept in sight. */
  shown?: number;
  /** Follows the last row, of any height. */
  children?: ComponentChildren;
}

const OVERSCAN = 8;

export function Rows<Row>({
  rows,
  rowHeight,
  label,
  render,
  isFollowing = false,
  onScrollAway,
  shown,
  children,
}: RowsProps<Row>) {
  const ref = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const first = Math.max(0, Math.floor(view.top / rowHeight) - OVERSCAN);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + OVERSCAN);

  useLayoutEffect(() => {
    const box = ref.current!;
    const measure = () => setView({ top: box.scrollTop, height: box.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    const box = ref.current!;
    if (isFollowing) box.scrollTop = box.scrollHeight;
  });

  useEffect(() => {
    const box = ref.current!;
    if (shown === undefined || shown < 0 || isFollowing) return;
    const top = shown * rowHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 2;
  }, [shown]);

  return (
    <div
      class="rows"
      {...(rows.length > 0 ? { role: "table", "aria-rowcount": rows.length } : { role: "group" })}
      aria-label={label}
      tabIndex={0}
      ref={ref as Ref<HTMLDivElement>}
      onScroll={(event) => {
        const box = event.currentTarget;
        setView({ top: box.scrollTop, height: box.clientHeight });
      }}
      onWheel={(event) => event.deltaY < 0 && onScrollAway?.()}
      onTouchMove={() => onScrollAway?.()}
    >
      <div
        class="rows-all"
        role={rows.length > 0 ? "rowgroup" : "presentation"}
        style={{ height: `${rows.length * rowHeight}px` }}
      >
        <div class="rows-seen" role="presentation" style={{ transform: `translateY(${first * rowHeight}px)` }}>
          {rows.slice(first, last).map((row, index) => render(row, first + index))}
        </div>
      </div>
      {children}
    </div>
  );
}
