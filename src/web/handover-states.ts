import type { HandoverRecord } from './wire.ts';

/** Whether a handover may still change. */
export const isOpen = ({ status }: HandoverRecord): boolean =>
  status === 'offered' || status === 'moving';

/** Whether a conversation belongs to its new owner, or is about to. */
export const isTaken = ({ status }: HandoverRecord): boolean =>
  status === 'moving' || status === 'done';

/** The newest handover of a conversation by its owner; undefined without one. Pure. */
export const newestOf = (
  all: readonly HandoverRecord[],
  conversationId: string,
  owner: string | undefined,
): HandoverRecord | undefined =>
  all
    .filter(({ conversation_id: id, from }) => id === conversationId && from === owner)
    .sort((one, other) => (one.created_at < other.created_at ? -1 : 1))
    .at(-1);
