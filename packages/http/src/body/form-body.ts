import type { IncomingMessage } from 'node:http';
import { Refusal } from '../refusal.ts';
import { ByteGatherer } from './byte-gatherer.ts';

/** Maximum length of a form. */
const maxFormBytes = 8 * 1024;

/**
 * Reads the fields of a form of a page. Throws a `Refusal`, and leaves the rest of the body unread.
 */
export async function readForm(request: IncomingMessage): Promise<URLSearchParams> {
  const [type = ''] = (request.headers['content-type'] ?? '').split(';');
  if (
    type.trim().toLowerCase() !== 'application/x-www-form-urlencoded' ||
    (request.headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity'
  )
    throw new Refusal(
      'unsupported-media-type',
      'The body has to be sent as application/x-www-form-urlencoded, and not compressed.',
    );
  const gathered = new ByteGatherer();
  try {
    for await (const chunk of request) {
      const bytes = chunk as Buffer;
      if (gathered.length + bytes.length > maxFormBytes)
        throw new Refusal('body-too-large', 'The form is larger than 8 KiB.');
      gathered.add(bytes);
    }
  } catch (cause) {
    if (cause instanceof Refusal) throw cause;
    throw new Refusal('malformed-request', 'The body could not be read.', { cause });
  }
  return new URLSearchParams(gathered.bytes().toString('utf8'));
}
