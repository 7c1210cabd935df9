import type { ServerResponse } from 'node:http';

type Headers = Readonly<Record<string, string>>;

/** Returns the length in bytes. Without the charset that express would add: JSON has none. */
export const sendJson = (response: ServerResponse, status: number, json: unknown, headers?: Headers): number =>
  sendJsonText(response, status, JSON.stringify(json), headers);

/** The same for what is JSON already. */
export function sendJsonText(response: ServerResponse, status: number, body: string, headers: Headers = {}): number {
  const bytes = Buffer.byteLength(body);
  response.statusCode = status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.setHeader('content-type', 'application/json');
  response.setHeader('content-length', bytes);
  // ASCII has the same bytes in latin1, which is faster.
  response.end(body, bytes === body.length ? 'latin1' : 'utf8');
  return bytes;
}
