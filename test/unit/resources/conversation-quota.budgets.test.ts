import { conversationQuotas } from '../../../src/resources/conversation-quota.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { admittedObject } from '../../support/admitted-object.ts';
import { metadata } from '../../support/builders.ts';

const objectOf = (kind: string, spec: object) => ({
  apiVersion,
  kind,
  metadata: { ...metadata('one'), uid: 'one' },
  spec,
});
const quotaWith = (budget: object, more: object = {}) =>
  admittedObject(
    conversationQuotas,
    objectOf('ConversationQuota', { scope: 'Owner', limit: 1, ...more, budget }),
  );

describe('the budget of a quota', () => {
  it('is one of a month in UTC and US dollars, whose owner raises nothing, by default', () => {
    expect(quotaWith({ amount: 0.5 })).toMatchObject({
      spec: {
        budget: {
          amount: 0.5,
          currency: 'USD',
          period: 'Month',
          timeZone: 'UTC',
          onExceeded: 'Reject',
          maxRaise: 0,
        },
      },
    });
  });

  it.each<[object, object]>([
    [{ amount: 1_000_000 }, {}],
    [{ amount: 2_000_000_000, currency: 'Tokens', period: 'Week', timeZone: 'Europe/Berlin' }, {}],
    [
      { amount: 5, timeZone: 'America/Argentina/Buenos_Aires', onExceeded: 'Queue', maxRaise: 2.5 },
      {},
    ],
    [{ amount: 5, maxRaise: 0 }, { scope: 'Namespace' }],
  ])('%j is admitted', (budget, more) => {
    expect(() => quotaWith(budget, more)).not.toThrow();
  });

  it.each<[object, string, object]>([
    [{}, 'spec.budget.amount: Required value', {}],
    [{ amount: 0 }, 'spec.budget.amount in body should be greater than 0', {}],
    [{ amount: -1 }, 'spec.budget.amount in body should be greater than 0', {}],
    [{ amount: '5' }, 'spec.budget.amount in body must be of type number', {}],
    [{ amount: 1_000_000.5 }, 'a budget in USD is at most 1000000', {}],
    [{ amount: 1.5, currency: 'Tokens' }, 'an amount of tokens is an integer', {}],
    [{ amount: 1e13, currency: 'Tokens' }, 'spec.budget.amount in body should be less', {}],
    [{ amount: 1, currency: 'EUR' }, 'spec.budget.currency', {}],
    [{ amount: 1, period: 'Year' }, 'spec.budget.period', {}],
    [{ amount: 1, timeZone: '' }, 'spec.budget.timeZone', {}],
    [{ amount: 1, timeZone: '+01:00' }, 'spec.budget.timeZone', {}],
    [{ amount: 1, maxRaise: -1 }, 'spec.budget.maxRaise', {}],
    [
      { amount: 1, maxRaise: 1 },
      'budget.maxRaise goes with scope Owner only',
      { scope: 'Namespace' },
    ],
  ])('%j is refused: %s', (budget, message, more) => {
    expect(() => quotaWith(budget, more)).toThrow(message);
  });
});

describe('the budget of a conversation', () => {
  const withBudget = (budget?: object) =>
    objectOf('Conversation', {
      owner: 'alice',
      templateName: 'default',
      ...(budget === undefined ? {} : { budget }),
    });
  const change = (before: object | undefined, after: object | undefined) =>
    admittedObject(conversations, withBudget(after), { old: withBudget(before) });
  const five = { amount: 5, currency: 'USD' };

  it.each([5, 5.000000001, 1_000_000])('of 5 may become %d', (amount) => {
    expect(() => change(five, { ...five, amount })).not.toThrow();
  });

  it.each<[string, object | undefined, object | undefined, string]>([
    ['falls', five, { ...five, amount: 4.99 }, 'amount may only grow'],
    ['is removed', five, undefined, 'budget comes with the start'],
    ['is added', undefined, five, 'budget comes with the start'],
    ['has tokens', five, { ...five, currency: 'Tokens' }, 'spec.budget.currency'],
    ['is too large', five, { ...five, amount: 1_000_000.1 }, 'spec.budget.amount'],
  ])('is refused where it %s', (_name, before, after, message) => {
    expect(() => change(before, after)).toThrow(message);
  });
});
