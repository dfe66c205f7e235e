// Amounts: millionths of a dollar on the wire, dollars on the screen.

const MICROS = 1_000_000;

/** Dollars with a number of digits. A number format of the browser takes a tenth of a second to make, on the first page. */
function dollars(micros: number, digits: number): string {
  const [whole, part] = Math.abs(micros / MICROS)
    .toFixed(digits)
    .split(".");
  return `${micros < 0 ? "−" : ""}$${whole!.replace(/\B(?=(\d{3})+$)/g, ",")}.${part}`;
}

/** "$0.204" below ten dollars, else "$42.18". What is more than nothing never shows as nothing. */
export function money(micros: number): string {
  if (micros > 0 && micros < 500) return "<$0.001";
  return dollars(micros, Math.abs(micros) < 10 * MICROS ? 3 : 2);
}

/** As short as it can be: "$0.25", "$5", "$0.0005". For limits and for fields. */
export function plainMoney(micros: number): string {
  const text = (micros / MICROS).toFixed(6).replace(/0+$/, "");
  const [whole, part = ""] = text.split(".");
  return `$${whole}${part ? `.${part.padEnd(2, "0")}` : ""}`;
}

/** Reads "$0.25", "0.25" or "1,000". Undefined where it is no amount. */
export function parseMoney(text: string): number | undefined {
  const plain = text
    .trim()
    .replace(/^\$\s*/, "")
    .replaceAll(",", "");
  return /^\d{1,9}(\.\d{0,6})?$|^\.\d{1,6}$/.test(plain) ? Math.round(Number(plain) * MICROS) : undefined;
}

/** Price of a million tokens. */
export const pricePerMillion = (micros: number) => dollars(micros, 2);
