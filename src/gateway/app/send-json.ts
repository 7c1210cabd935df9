import type { ServerResponse } from 'node:http';

/** Returns the length in bytes. Without the charset that express would add: JSON has none. */
export function sendJson(response: ServerResponse, status: number, json: unknown, headers: Readonly<Record<string, string>> = {}): number {
  const body = JSON.stringify(json);
  response.statusCode = status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.setHeader('content-type', 'application/json');
  const bytes = Buffer.byteLength(body);
  response.setHeader('content-length', bytes);
  response.end(body);
  return bytes;
}
