// Times, durations, sizes and counts as people read them.

/** "38 ms", "3.8 s", "4 min 12 s", "2 h 5 min". */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
}

/** A limit of whole seconds: "30 s", "5 min". */
export const limit = (seconds: number) => (seconds < 60 ? `${seconds} s` : duration(seconds * 1000));

/** "now", "12 s", "3 min", "5 h", "2 d". */
export function age(ms: number): string {
  if (ms < 2000) return "now";
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

/** A date format that is made when it is used first: making one takes long. */
function lazyFormat(options: Intl.DateTimeFormatOptions): (time: number | string) => string {
  let format: Intl.DateTimeFormat | undefined;
  return (time) => (format ??= new Intl.DateTimeFormat("en-GB", options)).format(new Date(time));
}

const minutes: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit" };
const dateOfYear = lazyFormat({ day: "numeric", month: "short", ...minutes });
const dateWithYear = lazyFormat({ day: "numeric", month: "short", year: "numeric", ...minutes });

export const clock = lazyFormat({ ...minutes, second: "2-digit", fractionalSecondDigits: 3 });

const DAYS_WITHOUT_YEAR = 300;

export const dateTime = (time: string, now = Date.now()) =>
  (Math.abs(now - Date.parse(time)) < DAYS_WITHOUT_YEAR * 86_400_000 ? dateOfYear : dateWithYear)(time);

const dayOfYear = lazyFormat({ day: "numeric", month: "short", timeZone: "UTC" });

/** "22 Nov", or "20 Nov to 22 Nov", of days in UTC. The end of the range is not part of it. */
export function dayRange(since: string, until?: string): string {
  const last = until && dayOfYear(Date.parse(until) - 1);
  const first = dayOfYear(since);
  return last && last !== first ? `${first} to ${last}` : first;
}

/** "in 39 min", or the date if that is more than a day away. */
export function until(time: string, now: number): string {
  const ms = Date.parse(time) - now;
  if (ms <= 0) return "now";
  return ms < 86_400_000 ? `in ${age(Math.max(ms, 2000))}` : dateTime(time, now);
}

/** "512 B", "14.2 KB", "2 MB". */
export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  for (; count >= 999.5 && unit < units.length - 1; unit += 1) count /= 1000;
  return `${count < 100 && unit ? Number(count.toFixed(1)) : Math.round(count)} ${units[unit]}`;
}

/** "981", "38.4k", "1.2M". */
export function count(value: number): string {
  if (value < 10_000) return value.toLocaleString("en-US");
  return value < 999_950 ? `${Number((value / 1000).toFixed(1))}k` : `${Number((value / 1e6).toFixed(1))}M`;
}

export const percent = (part: number, whole: number) => (whole ? Math.round((part / whole) * 100) : 0);
