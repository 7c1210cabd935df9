import { z } from 'zod';

const authMessage = z.looseObject({ type: z.literal('auth'), session_api_key: z.string() });

/**
 * Reads `{"type":"auth","session_api_key":"…"}`, the first message of a WebSocket whose client has
 * shown no key before. Returns the key in it, and the same message with the agent's key instead.
 * Undefined for any other message.
 */
export function withKeyReplaced(
  message: string,
  agentKey: string,
): { readonly key: string; readonly message: string } | undefined {
  let json: unknown;
  try {
    json = JSON.parse(message);
  } catch {
    return undefined;
  }
  const { data } = authMessage.safeParse(json);
  if (data === undefined) return undefined;
  return {
    key: data.session_api_key,
    message: JSON.stringify({ ...data, session_api_key: agentKey }),
  };
}
