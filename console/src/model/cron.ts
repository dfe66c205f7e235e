// Cron expressions in words. What has no simple sentence stays an expression.

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const DAY_NAMES = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const ALIASES: Record<string, string> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
};

const isNumber = (field: string) => /^\d+$/.test(field);
const everyOf = (field: string) => /^\*\/(\d+)$/.exec(field)?.[1];
const two = (field: string) => field.padStart(2, "0");

function list(parts: string[]): string {
  return parts.length < 2 ? (parts[0] ?? "") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

function dayName(field: string): string | undefined {
  const index = isNumber(field) ? Number(field) % 7 : DAY_NAMES.indexOf(field.toUpperCase());
  return Number(field) > 7 ? undefined : DAYS[index];
}

/** "Monday to Friday", "Monday and Thursday". */
function daysOfWeek(field: string): string | undefined {
  const parts = field.split(",").map((part) => {
    const ends = part.split("-").map(dayName);
    return ends.length <= 2 && ends.every(Boolean) ? ends.join(" to ") : undefined;
  });
  return parts.every(Boolean) ? list(parts as string[]) : undefined;
}

/** When within a day: "every 15 minutes", "every hour at :30", "at 07:00 and 19:00". */
function times(minute: string, hour: string): string | undefined {
  const everyMinute = everyOf(minute);
  if (hour === "*" && minute === "*") return "every minute";
  if (hour === "*" && everyMinute) return `every ${everyMinute} minutes`;
  if (!isNumber(minute)) return undefined;
  if (hour === "*") return `every hour at :${two(minute)}`;
  const everyHour = everyOf(hour);
  if (everyHour) return `every ${everyHour} hours${minute === "0" ? "" : ` at :${two(minute)}`}`;
  const hours = hour.split(",");
  if (hours.every(isNumber)) return `at ${list(hours.map((one) => `${two(one)}:${two(minute)}`))}`;
  const range = /^(\d+)-(\d+)$/.exec(hour);
  return range ? `every hour at :${two(minute)} from ${two(range[1]!)} to ${two(range[2]!)}` : undefined;
}

/** On which days: "Monday to Friday", "on day 1 of the month", "on 1 January". An empty text is every day. */
function days(day: string, month: string, weekday: string): string | undefined {
  if (day === "*" && month === "*" && weekday === "*") return "";
  if (day === "*" && month === "*") return daysOfWeek(weekday);
  if (weekday !== "*" || !day.split(",").every(isNumber)) return undefined;
  if (month === "*") return `on day ${list(day.split(","))} of the month`;
  return isNumber(month) && isNumber(day) && MONTHS[Number(month) - 1]
    ? `on ${day} ${MONTHS[Number(month) - 1]}`
    : undefined;
}

/** The sentence, or undefined where the expression has none. */
export function cronWords(expression: string): string | undefined {
  const fields = (ALIASES[expression.trim()] ?? expression).trim().split(/\s+/);
  if (fields.length !== 5) return undefined;
  const [minute, hour, day, month, weekday] = fields as [string, string, string, string, string];
  const when = times(minute, hour);
  const which = days(day, month, weekday);
  if (when === undefined || which === undefined) return undefined;
  const daily = which === "" && when.startsWith("at ") ? "every day " : "";
  const words = which === "" ? daily + when : `${when}, ${which}`;
  return words[0]!.toUpperCase() + words.slice(1);
}
