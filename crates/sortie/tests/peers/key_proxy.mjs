// Forwards requests to an engine with its key, for programs that send none: `key_proxy.mjs URL`. Prints its address.
import http from 'node:http';

const headers = { authorization: `Bearer ${process.env.SORTIE_API_KEY}` };
const proxy = http.createServer((request, response) => {
  const forwarded = http.request(new URL(request.url, process.argv[2]), {
    method: request.method,
    headers: { ...request.headers, ...headers },
  });
  forwarded.on('response', (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  forwarded.on('error', () => response.destroy());
  response.on('close', () => forwarded.destroy());
  request.pipe(forwarded);
});
proxy.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${proxy.address().port}`));
