import type { ServerResponse } from 'node:http';

/** Without the charset that express would add: JSON has none. */
export function sendJson(response: ServerResponse, status: number, json: unknown, headers: Readonly<Record<string, string>> = {}): void {
  const body = JSON.stringify(json);
  response.statusCode = status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.setHeader('content-type', 'application/json');
  response.setHeader('content-length', Buffer.byteLength(body));
  response.end(body);
}
