// Amounts: millionths of a dollar on the wire, dollars on the screen.

const MICROS = 1_000_000;
const format = (digits: number) => new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", minimumFractionDigits: digits, maximumFractionDigits: digits });
const cents = format(2);
const mills = format(3);

/** "$0.204" below ten dollars, else "$42.18". What is more than nothing never shows as nothing. */
export function money(micros: number): string {
  if (micros > 0 && micros < 500) return "<$0.001";
  return (Math.abs(micros) < 10 * MICROS ? mills : cents).format(micros / MICROS);
}

/** As short as it can be: "$0.25", "$5", "$0.0005". For limits and for fields. */
export function plainMoney(micros: number): string {
  const text = (micros / MICROS).toFixed(6).replace(/0+$/, "");
  const [whole, part = ""] = text.split(".");
  return `$${whole}${part ? `.${part.padEnd(2, "0")}` : ""}`;
}

/** Reads "$0.25", "0.25" or "1,000". Undefined where it is no amount. */
export function parseMoney(text: string): number | undefined {
  const plain = text.trim().replace(/^\$\s*/, "").replaceAll(",", "");
  return /^\d{1,9}(\.\d{0,6})?$|^\.\d{1,6}$/.test(plain) ? Math.round(Number(plain) * MICROS) : undefined;
}

/** Price of a million tokens. */
export const pricePerMillion = (micros: number) => cents.format(micros / MICROS);
