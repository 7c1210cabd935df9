import type { CachedConversation } from '../../resources/cached-conversation.ts';

/** Every conversation has one: the owner's, the agent's, or what its message begins with. */
export function titleOf({ spec, status, firstWords }: CachedConversation): string {
  const given = spec.title ?? status?.title;
  if (given !== undefined && given !== '') return given;
  return firstWords || 'New conversation';
}
