/** Maximum polls that notifications bring forward at once. */
export const notificationBurst = 6;
/** Delay before a notification may bring another poll forward. */
export const msPerNotification = 2_000;

/** Token bucket of one conversation. The time is on the monotonic clock. */
export interface NotificationBudget {
  readonly tokens: number;
  readonly at: number;
}

export const fullBudget = (now: number): NotificationBudget => ({
  tokens: notificationBurst,
  at: now,
});

/**
 * Takes a token for a notification. Returns when the notification may cause a poll, and whether
 * tokens are left for the repeated polls that find what the agent stores a moment later.
 */
export function spend(
  budget: NotificationBudget,
  now: number,
): { readonly budget: NotificationBudget; readonly dueAt: number; readonly attentive: boolean } {
  const tokens =
    Math.min(notificationBurst, budget.tokens + (now - budget.at) / msPerNotification) - 1;
  const dueAt = tokens >= 0 ? now : now - tokens * msPerNotification;
  return { budget: { tokens, at: now }, dueAt, attentive: tokens >= 1 };
}
