import { z } from 'zod';

/**
 * A notification from a gateway to the operators: an agent has reported a change. The notification
 * only makes the leader of the operators poll sooner, so it may be lost, late, repeated or wrong.
 */
export interface AgentNotification {
  readonly namespace: string;
  readonly sandbox: string;
  /** 32 hex digits. Absent: any conversation of the sandbox may have changed. */
  readonly conversationId?: string | undefined;
}

export const notificationsPath = '/notifications';
/** Maximum notifications of one request. */
export const maxNotifications = 200;
/** Maximum bytes of one request. */
export const maxNotificationsBytes = 128 * 1024;

const name = z.string().min(1).max(253);

export const notificationsSchema = z.object({
  notifications: z
    .array(
      z.object({ namespace: name, sandbox: name, conversationId: z.string().max(64).optional() }),
    )
    .max(maxNotifications),
});
