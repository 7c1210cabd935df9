import type { Sent } from '../support/gateway/two-owners.ts';

/** Quotes bytes of any value for bash. */
const quoted = (bytes: Buffer): string =>
  `$'${[...bytes]
    .map((byte) =>
      byte >= 0x20 && byte < 0x7f && byte !== 0x27 && byte !== 0x5c
        ? String.fromCharCode(byte)
        : `\\x${byte.toString(16).padStart(2, '0')}`,
    )
    .join('')}'`;

/** A command that sends the same request; a body too long for a line is marked as truncated. */
export function curlOf(
  origin: string,
  { method, target, headers = {}, body }: Sent,
  maxBytes = 4000,
): string {
  const shown = body?.subarray(0, maxBytes);
  return [
    'curl -sS -i --globoff --path-as-is',
    `-X ${method}`,
    ...Object.entries(headers)
      .filter(([name]) => name !== 'content-length')
      .map(([name, value]) => `-H ${quoted(Buffer.from(`${name}: ${String(value)}`, 'latin1'))}`),
    ...(shown === undefined ? [] : [`--data-binary ${quoted(shown)}`]),
    quoted(Buffer.from(`${origin}${target}`)),
    ...(body !== undefined && body.length > maxBytes
      ? [`# and ${body.length - maxBytes} bytes more of the body`]
      : []),
  ].join(' ');
}
