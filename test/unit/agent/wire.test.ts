import { conversationInfoSchema, conversationPageSchema } from '../../../src/agent/wire.ts';

const execution_status = 'idle';

describe('the id of a conversation in an answer of an agent', () => {
  it.each([
    ['of version 4', '8df88a84-c3b7-4e59-958f-d06b72a4e912', true],
    [
      'without a version, which a client may have chosen',
      'e2e5a000-0000-0000-0000-000000000001',
      true,
    ],
    ['no UUID', 'e2e5a000', false],
  ])('is read: %s', (_case, id, isRead) => {
    expect(conversationInfoSchema.safeParse({ id, execution_status }).success).toBe(isRead);
    const page = { items: [{ id, execution_status }] };
    expect(conversationPageSchema.safeParse(page).success).toBe(isRead);
  });
});
