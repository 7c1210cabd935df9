import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as fc from 'fast-check';
import { cachedConversation } from '../../../src/resources/cached-conversation.ts';
import type { Conversation, LaterMessage, Message } from '../../../src/resources/conversation.ts';
import { storedBytesOf } from '../../../src/resources/stored-size.ts';
import { aConversation } from '../../support/builders.ts';

const message = (text: string): Message => ({ role: 'user', content: [{ type: 'text', text }], run: true });
const later = (number: number, text: string): LaterMessage => ({ ...message(text), number, id: `m${number}` });

/** As an API server sends it. */
function stored(spec: Partial<Conversation['spec']>, metadata: Partial<Conversation['metadata']> = {}): Conversation {
  const { storedBytes: _bytes, firstWords: _words, ...object } = aConversation({ spec, status: { executionStatus: 'running' } });
  return { ...object, metadata: { ...object.metadata, ...metadata } };
}

describe('a cached conversation', () => {
  it('has no texts, and everything else that decisions need', () => {
    const whole = stored({
      ...{ initialMessage: message('the first'), messages: [later(1, 'the second')], title: 'A title', tags: { team: 'one' } },
      agent: { model: 'm', systemMessageSuffix: 'the suffix' },
    });
    const cached = cachedConversation(whole);
    expect(cached).toEqual({
      ...whole,
      spec: {
        ...{ owner: 'alice', templateName: 'default', title: 'A title', tags: { team: 'one' }, agent: { model: 'm' } },
        initialMessage: { role: 'user', run: true },
        messages: [{ number: 1, id: 'm1', role: 'user', run: true }],
      },
      storedBytes: storedBytesOf(whole),
      firstWords: 'the first',
    });
  });

  it('has the annotations of this group, and nothing else that others may have put into the metadata', () => {
    const own = { 'conversation-operator.dev/request-sha256': 'abc' };
    const foreign = {
      'kubectl.kubernetes.io/last-applied-configuration': '{}',
      'conversation-operator.dev/long': 'x'.repeat(2000),
    };
    const { metadata } = cachedConversation(
      stored({}, { annotations: { ...own, ...foreign }, labels: { a: 'b' }, managedFields: [{ manager: 'kubectl' }] }),
    );
    expect(metadata).toEqual({ ...stored({}).metadata, annotations: own });
  });

  it.each<[string, Message | undefined, string]>([
    ['the beginning of the first message', message(`Fix the page. ${'word '.repeat(10_000)}`), 'Fix the page.'],
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

  it('keeps nothing of a text in memory', () => {
    setFlagsFromString('--expose-gc');
    const gc = runInNewContext('gc') as () => void;
    const texts = 100;
    const kept: unknown[] = [];
    gc();
    const before = process.memoryUsage().heapUsed;
    for (let index = 0; index < texts; index++) {
      const json = JSON.stringify(stored({ initialMessage: message(`${index} with one word and another ${'x'.repeat(262_000)}`) }));
      kept.push(cachedConversation(JSON.parse(json) as Conversation));
    }
    gc();
    const each = (process.memoryUsage().heapUsed - before) / texts;
    expect(kept).toHaveLength(texts);
    expect(each).toBeLessThan(20_000);
  });
});

describe('the stored size', () => {
  const text = fc.string({ unit: 'grapheme' }).map((characters) => characters.replaceAll(/["\\\p{Cc}\p{Cs}]/gu, ''));

  it('is that of the JSON in UTF-8, where JSON escapes nothing', () => {
    fc.assert(
      fc.property(fc.option(text, { nil: undefined }), fc.array(text), fc.array(text), (first, messages, imageUrls) => {
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
      }),
    );
  });

  it('depends neither on the status nor on managedFields', () => {
    const managedFields = [{ manager: 'kubectl' }];
    const { status: _status, ...unseen } = stored({});
    expect(storedBytesOf(stored({}, { managedFields }))).toBe(storedBytesOf(unseen));
  });
});
