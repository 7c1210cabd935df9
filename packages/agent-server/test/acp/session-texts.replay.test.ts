import { Replay } from '../../src/acp/session-texts.ts';
import { needlesOf } from '../../src/mask.ts';

const chunk = (sessionUpdate: string, text: string) => ({
  sessionUpdate,
  content: { type: 'text', text },
});

/** A replay of messages of the agent; `>` begins one of the user. */
function aReplay(messages: readonly string[]): Replay {
  const replay = new Replay();
  for (const text of messages) {
    const isUser = text.startsWith('>');
    replay.add(chunk(isUser ? 'user_message_chunk' : 'agent_message_chunk', text));
    replay.add({ sessionUpdate: 'tool_call' });
  }
  return replay;
}

describe('the messages of a replay that the log does not have', () => {
  it.each<[string, readonly string[], readonly string[], readonly string[]]>([
    ['nothing is lost', ['>1', 'a', '>2', 'b'], ['a', 'b'], []],
    ['the last one', ['>1', 'a', '>2', 'b'], ['a'], ['b']],
    ['one that is like an earlier one', ['>1', 'OK', '>2', 'OK'], ['OK'], ['OK']],
    ['the rest of one', ['>1', 'a', '>2', 'Hello there.'], ['a', 'Hello '], ['there.']],
    ['one that is several events in the log', ['>1', 'abc', 'd'], ['a', 'b', 'c'], ['d']],
    ['white space differs', ['>1', 'a\n\nb'], ['a b\n'], []],
    ['everything, where the log has none', ['>1', 'a', '>2', 'b'], [], ['a', 'b']],
    ['a beginning that is a summary now', ['summary', '>2', 'b', 'c'], ['x', 'y', 'b'], ['c']],
    ['no message is known', ['x', '>2', 'y'], ['a', 'b'], ['y']],
    ['an empty replay', [], ['a'], []],
  ])('%s', (_case, messages, logged, lost) => {
    expect(aReplay(messages).lostFrom(logged)).toEqual(lost);
  });

  const hidden = '<secret-hidden>';
  it.each<[string, readonly string[], readonly string[], readonly string[]]>([
    ['a value that is known', ['>1', 'key s3cret', 'b s3cret'], [`key ${hidden}`], [`b ${hidden}`]],
    ['a value that is known no more', ['>1', 'a 0ld b', 'c'], [`a ${hidden} b`], ['c']],
    ['two values side by side', ['>1', 'a 0ld0lder b', 'c'], [`a ${hidden}${hidden} b`], ['c']],
    ['a value that is all of it', ['>1', '0ld', 'c'], [hidden], ['c']],
    ['a value before the rest', ['>1', 'a 0ld b and c'], [`a ${hidden} b`], [' and c']],
    ['a value at the end of what is known', ['>1', 'a 0ld'], [`a ${hidden}`], []],
    ['another message', ['>1', 'x 0ld', 'c'], [`a ${hidden}`, 'b'], ['x 0ld', 'c']],
  ])('repeat no secret of the log: %s', (_case, messages, logged, lost) => {
    expect(aReplay(messages).lostFrom(logged, needlesOf(['s3cret']))).toEqual(lost);
  });

  it('are joined from their chunks, and bounded', () => {
    const replay = new Replay();
    for (let message = 0; message < 200; message++) {
      for (let index = 0; index < 3; index++)
        replay.add(chunk('agent_message_chunk', 'x'.repeat(50_000)));
      replay.add({ sessionUpdate: 'tool_call' });
    }
    const lost = replay.lostFrom([]);
    expect(lost).toHaveLength(20);
    expect(lost[0]).toHaveLength(100_000);
  });

  it('are the last ones of a long replay, of which the log lacks the last ones', () => {
    const messages = Array.from({ length: 150 }, (_none, index) => `m${index}`);
    const lostAfter = (logged: number) =>
      aReplay(['>1', ...messages]).lostFrom(messages.slice(0, logged));
    expect(lostAfter(145)).toEqual(messages.slice(145));
    expect(lostAfter(120)).toEqual(messages.slice(130));
  });
});
