// Answers in JSON.
export const json = (response, status, body) => {
  response.writeHead(status, { "Content-Type": "application/json", "X-Request-Id": "5f0c1a528d3b4c8e00000017" });
  response.end(status === 204 ? undefined : JSON.stringify(body));
};
export const refuse = (response, status, code, error) => json(response, status, { error, code });
