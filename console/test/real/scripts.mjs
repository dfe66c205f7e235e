// What the scripted model answers, by the name that a prompt gives: "script:NAME".
export const HOSTILE = `# <img src=x onerror=alert(1)>
[click](javascript:alert(1)) ![pixel](https://evil.example/pixel.png) <script>alert(1)</script>
[data](data:text/html,<script>alert(1)</script>) <https://example.com> \u202Etxt.exe
- <iframe src="https://evil.example"></iframe>
- [ok](https://example.com/a?b=c)

| a | <b onmouseover=alert(1)>b</b> |
|---|---|
| \`<style>*{display:none}</style>\` | **bold** |
`;

const shell = (command) => ({ calls: [{ name: "shell", args: { command } }] });

export const scripts = {
  /** Writes a long text, word by word. */
  writes: () => ({ text: "The quick brown fox jumps over the lazy dog. ".repeat(12) }),
  /** Is refused once by the provider. */
  retry: (count) => (count === 0 ? { status: 529, message: "overloaded" } : { text: "It worked at the second attempt." }),
  /** Takes eight turns that only read. */
  reads: (count) =>
    count < 8
      ? { text: `Step ${count + 1}. `, calls: [{ name: "read_file", args: { path: "notes.txt" } }], delay: 500 }
      : { text: "All steps are done." },
  /** Makes a run of more than ten thousand events: 110 requests with 49 calls each, of which some shorten the conversation. */
  many: (count) =>
    count < 110
      ? {
          text: `Step ${count + 1}: look at the next pages.`,
          // The agent ends runs that repeat equal calls.
          calls: Array.from({ length: 49 }, (_, index) => ({
            name: "read_file",
            args: { path: "notes.txt", start_line: 1, end_line: count * 49 + index + 1 },
          })),
        }
      : { text: "All pages were read." },
  /** Never matches the schema that is asked for. */
  rejected: () => ({ text: '{"price": "none"}' }),
  /** Costs more with each turn than small budgets have. */
  costly: () => ({ ...shell("echo more"), input: 30_000, output: 2_000 }),
  /** Calls an API that never answers. */
  uncertain: () => ({ calls: [{ name: "orders__request", args: { method: "POST", path: "/slow", body: { order: 1 } } }] }),
  /** Answers, prints and names files like an attacker. */
  hostile: (count) =>
    count === 0
      ? shell(
          "mkdir -p outputs && printf '\\033]0;title\\007<b>x</b>\\342\\200\\256 \\033[31mred\\033[0m' && " +
            'echo hello > "outputs/<img src=x onerror=alert(1)>.txt"',
        )
      : { text: HOSTILE },
  /** Fails with a message that looks like markup. */
  breaks: () => ({ status: 400, message: "<img src=x onerror=alert(1)> is no model" }),
};
