import { createServer, type Socket } from 'node:net';

/** A false agent in an agent's container, at its port; the first argument is its behavior. */
const [behaviour = ''] = process.argv.slice(2);
const json = (body: string, status = '200 OK') =>
  `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

/** Ready, with keys, and no runs: RUNNING. A hostile conversation follows. */
const friendly = (request: string): string | undefined => {
  if (request.includes(' /ready ')) return json('{"status":"ready"}');
  if (request.includes(' /api/init ')) return json('{"state":"ready"}');
  if (request.includes('/count')) return json('0');
  if (request.includes('/search?status=running')) return json('{"items":[],"next_page_id":null}');
  if (request.includes('execute_bash_command'))
    return json('{"exit_code":0,"stdout":"/workspace/project\\n","stderr":""}');
  if (request.includes('/api/hooks')) return json('{"hook_config":null}');
  if (request.includes('/server_info')) return json('{"uptime":1,"idle_time":1,"version":"1"}');
  return undefined;
};

const flood = (socket: Socket, text: string) => {
  const chunk = Buffer.from(text.repeat(Math.ceil(65_536 / text.length)));
  const pour = () => {
    while (!socket.destroyed && socket.write(chunk));
    socket.once('drain', pour);
  };
  pour();
};

const behaviours: Readonly<Record<string, (socket: Socket, request: string) => void>> = {
  hangs: () => undefined,
  nonsense: (socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n'),
  fails: (socket) =>
    void setTimeout(
      () => socket.end(json('{"detail":"Internal Server Error"}', '500 Internal Server Error')),
      2500,
    ),
  redirects: (socket) =>
    socket.end(
      json('{}', '307 Temporary Redirect').replace(
        '\r\n',
        '\r\nLocation: http://169.254.169.254/\r\n',
      ),
    ),
  large: (socket) => socket.end(json(`"${'a'.repeat(10 * 1024 * 1024)}"`)),
  floods: (socket) => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    flood(socket, 'a');
  },
  refuses: (socket, request) =>
    void socket.end(
      friendly(request) ??
        json('{"detail":"I do not \\u001b[31mlike\\u202e it"}', '422 Unprocessable Entity'),
    ),
};

createServer((socket) => {
  let heard = '';
  socket
    .on('error', () => undefined)
    .on('data', (chunk: Buffer) => {
      heard = `${heard}${chunk.toString('latin1')}`.slice(-65_536);
      if (!heard.includes('\r\n\r\n')) return;
      behaviours[behaviour]?.(socket, heard);
      heard = '';
    });
}).listen(Number(process.env['PORT'] ?? 8000), process.env['HOST']);
