import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as fc from 'fast-check';
import { cachedConversation, storedBytesOf } from '../../../src/resources/cached-conversation.ts';
import type { Conversation, LaterMessage, Message } from '../../../src/resources/conversation.ts';
import { Interner } from '../../../src/resources/cached-metadata.ts';
import type { ObjectMeta } from '@conversation-operator/kube/object';
import { aConversation } from '../../support/builders.ts';
import { openApproval } from '../../support/gateway/open-approval.ts';

const message = (text: string): Message => ({
  role: 'user',
  content: [{ type: 'text', text }],
  run: true,
});
const later = (number: number, text: string): LaterMessage => ({
  ...message(text),
  number,
  id: `m${number}`,
});

/** A conversation as an API server sends it. */
function stored(
  spec: Partial<Conversation['spec']>,
  metadata: Partial<ObjectMeta> = {},
): Conversation {
  const {
    storedBytes: _bytes,
    firstWords: _words,
    lacksSteps: _steps,
    ...object
  } = aConversation({ spec, status: { executionStatus: 'running' } });
  return { ...object, metadata: { ...object.metadata, ...metadata } };
}

describe('a cached conversation', () => {
  it('has the names of its secrets, and no sealed value', () => {
    const cached = cachedConversation(stored({ secrets: [{ name: 'TOKEN', sealed: 'v1.x' }] }));
    expect(cached.spec.secrets).toEqual([{ name: 'TOKEN' }]);
  });

  it('has no texts, and everything else that decisions need', () => {
    const whole = stored({
      initialMessage: message('the first'),
      messages: [later(1, 'the second')],
      title: 'A title',
      tags: { team: 'one' },
      agent: { model: 'm', systemMessageSuffix: 'the suffix' },
    });
    const cached = cachedConversation(whole);
    expect(cached).toEqual({
      ...whole,
      spec: {
        owner: 'alice',
        templateName: 'default',
        title: 'A title',
        tags: { team: 'one' },
        agent: { model: 'm' },
        initialMessage: { role: 'user', run: true },
        messages: [{ number: 1, id: 'm1', role: 'user', run: true }],
      },
      storedBytes: storedBytesOf(whole),
      firstWords: 'the first',
      lacksSteps: false,
    });
  });

  it.each<[string, string, object]>([
    ['whole in the summary', '', { summary: 'ls', text: '' }],
    ['longer than the summary', 'ls and more', { summary: 'ls' }],
  ])('has the question of its agent, whose text is %s', (_case, text, kept) => {
    const whole = stored({});
    const approval = { ...openApproval, summary: 'ls', text };
    const cached = cachedConversation({ ...whole, status: { ...whole.status, approval } });
    const { summary: _summary, text: _text, ...others } = approval;
    expect(cached.status?.approval).toEqual({ ...others, ...kept });
  });

  it('has the annotations of this group, and nothing else that others may have put into the metadata', () => {
    const own = { 'conversation-operator.dev/request-sha256': 'abc' };
    const foreign = {
      'kubectl.kubernetes.io/last-applied-configuration': '{}',
      'conversation-operator.dev/long': 'x'.repeat(2000),
    };
    const { metadata } = cachedConversation(
      stored(
        {},
        {
          annotations: { ...own, ...foreign },
          labels: { a: 'b' },
          managedFields: [{ manager: 'kubectl' }],
        },
      ),
    );
    expect(metadata).toEqual({ ...stored({}).metadata, annotations: own });
  });

  it.each<[string, Message | undefined, string]>([
    [
      'the beginning of the first message',
      message(`Fix the page. ${'word '.repeat(10_000)}`),
      'Fix the page.',
    ],
    [
      'of all its parts',
      {
        ...message(' '),
        content: [
          { type: 'image', imageUrls: ['data:,x'] },
          { type: 'text', text: 'See this.' },
        ],
      },
      'See',
    ],
  ])('says the first words: %s', (_case, initialMessage, words) => {
    const { firstWords } = cachedConversation(stored({ initialMessage }));
    expect(firstWords.startsWith(words)).toBe(true);
    expect(firstWords.length).toBeLessThanOrEqual(81);
  });

  it('has no first words without a message', () => {
    expect(cachedConversation(stored({ initialMessage: undefined })).firstWords).toBe('');
  });

  it.each([
    ['lacks what the steps of a start that is over have printed', 'READY', 'much', true],
    ['has the steps of a start that continues', 'SETTING_UP_SKILLS', 'much', false],
    ['has steps that have printed nothing', 'READY', undefined, false],
  ] as const)('%s', (_case, start, output, lacksSteps) => {
    const time = '2026-03-01T12:00:00Z';
    const step = {
      name: 'clone',
      state: 'done',
      startedAt: time,
      updatedAt: time,
      ...(output === undefined ? {} : { output }),
    } as const;
    const whole = {
      ...stored({}),
      status: {
        start: { status: start, transitions: [], steps: [step] },
        executionStatus: 'idle' as const,
      },
    };
    const cached = cachedConversation(whole);
    expect(cached).toMatchObject({ lacksSteps, status: { executionStatus: 'idle' } });
    expect(cached.status?.start).toEqual(
      lacksSteps ? { status: start, transitions: [] } : whole.status.start,
    );
    expect(whole.status.start.steps).toEqual([step]);
  });

  it('shares texts that are the same with others, and changes no value', () => {
    const interner = new Interner();
    const [one, other] = [1, 2].map(() =>
      cachedConversation(JSON.parse(JSON.stringify(stored({}))) as Conversation, interner),
    );
    expect(one).toEqual(other);
    expect(one).toEqual(cachedConversation(stored({})));
  });

  it('keeps nothing of a text in memory', () => {
    setFlagsFromString('--expose-gc');
    const gc = runInNewContext('gc') as () => void;
    const texts = 100;
    const kept: unknown[] = [];
    gc();
    const before = process.memoryUsage().heapUsed;
    for (let index = 0; index < texts; index++) {
      const json = JSON.stringify(
        stored({
          initialMessage: message(`${index} with one word and another ${'x'.repeat(262_000)}`),
        }),
      );
      kept.push(cachedConversation(JSON.parse(json) as Conversation));
    }
    gc();
    const each = (process.memoryUsage().heapUsed - before) / texts;
    expect(kept).toHaveLength(texts);
    expect(each).toBeLessThan(20_000);
  });
});

describe('the stored size', () => {
  const text = fc.string({ unit: 'binary' });

  it('is that of the JSON in UTF-8, with the bytes that were removed before it was parsed', () => {
    fc.assert(
      fc.property(
        fc.option(text, { nil: undefined }),
        fc.array(text),
        fc.array(text),
        (first, messages, imageUrls) => {
          const whole = stored({
            initialMessage:
              first === undefined
                ? undefined
                : {
                    ...message(first),
                    content: [
                      { type: 'text', text: first },
                      { type: 'image', imageUrls },
                    ],
                  },
            messages: messages.map((each, index) => later(index + 1, each)),
          });
          const { metadata, spec } = whole;
          expect(storedBytesOf(whole)).toBe(Buffer.byteLength(JSON.stringify({ metadata, spec })));
        },
      ),
    );
  });

  it('depends neither on the status nor on managedFields', () => {
    const managedFields = [{ manager: 'kubectl' }];
    const { status: _status, ...unseen } = stored({});
    expect(storedBytesOf(stored({}, { managedFields }))).toBe(storedBytesOf(unseen));
  });
});
