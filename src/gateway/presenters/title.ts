import type { CachedConversation } from '../../resources/cached-conversation.ts';

/**
 * The title of a conversation: the owner's, else the agent's, else the beginning of its message.
 */
export function titleOf({ spec, status, firstWords }: CachedConversation): string {
  const given = spec.title ?? status?.title;
  if (given !== undefined && given !== '') return given;
  return firstWords || 'New conversation';
}
