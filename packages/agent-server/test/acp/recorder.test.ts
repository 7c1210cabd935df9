import { isDeeperThan } from '@conversation-operator/base/json-text';
import * as fc from 'fast-check';
import { bounded } from '../../src/acp/tool-calls.ts';
import { UpdateRecorder } from '../../src/acp/recorder.ts';
import type { Said } from '../../src/live-activity.ts';
import { needlesOf } from '../../src/mask.ts';

const aCall = (toolCallId: string, fields: object = {}) => ({
  sessionUpdate: 'tool_call',
  toolCallId,
  title: 'Run',
  status: 'pending',
  ...fields,
});

const long = 't'.repeat(1_000);
const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));

describe('the updates of a session', () => {
  it('lose no tool call while no run reads them, however many there are', () => {
    const recorder = new UpdateRecorder();
    for (let index = 0; index < 1_500; index++) recorder.add(aCall(`call-${index}`));
    expect(recorder.take(true)).toHaveLength(1_500);
    expect(recorder.size).toBe(0);
  });

  it('become one event for each tool call, with its last state', () => {
    const recorder = new UpdateRecorder();
    recorder.add(aCall('a', { rawInput: { command: 'x' } }));
    recorder.add(aCall('b'));
    recorder.add({ sessionUpdate: 'tool_call_update', toolCallId: 'a', status: 'completed' });
    const events = recorder.take(true);
    expect(events).toHaveLength(2);
    expect(events[0]).toMatchObject({
      tool_call_id: 'a',
      title: 'Run',
      status: 'completed',
      raw_input: { command: 'x' },
    });
  });

  it('become few events of a call whose output grows, and the last one has all of it', () => {
    const outputs: string[] = [];
    const recorder = new UpdateRecorder({
      onOutput: (id, output) => outputs.push(`${id}: ${output}`),
    });
    recorder.add(aCall('a', { status: 'in_progress' }));
    const events = [...recorder.take(false)];
    let text = '';
    for (let line = 0; line < 500; line++) {
      text += `line ${line}\n`;
      const content = [{ type: 'content', content: { type: 'text', text } }];
      recorder.add({ sessionUpdate: 'tool_call_update', toolCallId: 'a', content });
      events.push(...recorder.take(false));
    }
    expect(events.length).toBeLessThan(10);
    expect(outputs).toHaveLength(500);
    expect(outputs.at(-1)).toBe(`a: ${text}`);
    recorder.add({ sessionUpdate: 'tool_call_update', toolCallId: 'a', status: 'completed' });
    expect(JSON.stringify(recorder.take(true))).toContain('line 499');
  });

  it.each<[string, object]>([
    ['another title', { title: 'Other' }],
    ['another state', { status: 'failed' }],
    ['an input', { rawInput: { command: 'y' } }],
    ['files', { locations: [{ path: '/a' }] }],
  ])('become an event where output comes with %s', (_case, fields) => {
    const recorder = new UpdateRecorder();
    const content = [{ type: 'content', content: { type: 'text', text: 'x' } }];
    recorder.add(aCall('a', { status: 'in_progress', content }));
    recorder.take(true);
    const update = { sessionUpdate: 'tool_call_update', toolCallId: 'a', content };
    expect(recorder.add(update)).toBe('output');
    expect(recorder.take(true)).toEqual([]);
    expect(recorder.add({ ...update, ...fields })).toBe('event');
    expect(recorder.take(true)).toHaveLength(1);
  });

  it.each<[string, object, string]>([
    ['a text', { rawOutput: 'text' }, 'text'],
    ['an output', { rawOutput: { output: 'text', exit_code: 0 } }, 'text'],
    [
      'parts',
      { content: [{ content: { text: 'one' } }, { content: { text: 'two' } }] },
      'one\ntwo',
    ],
    ['a block of code', { content: [{ content: { text: '```sh\none\ntwo\n```\n' } }] }, 'one\ntwo'],
    ['a change of a file', { content: [{ type: 'diff', path: 'a', newText: 'x' }] }, ''],
  ])('have the output so far as %s', (_case, fields, output) => {
    const outputs: string[] = [];
    const recorder = new UpdateRecorder({ onOutput: (_id, text) => outputs.push(text) });
    recorder.add(aCall('a', { status: 'in_progress' }));
    recorder.add({ sessionUpdate: 'tool_call_update', toolCallId: 'a', ...fields });
    expect(outputs).toEqual(output === '' ? [] : [output]);
  });

  it.each<[string, object, object, boolean]>([
    ['another id', {}, { toolCallId: 'b' }, true],
    ['another state', {}, { status: 'completed', rawOutput: 'x' }, true],
    ['another title', {}, { title: 'Run it' }, false],
    ['another kind', {}, { kind: 'edit' }, false],
    ['another input', {}, { rawInput: { command: 'y' } }, false],
    ['another order', { rawInput: { a: 1, b: 2 } }, { rawInput: { b: 2, a: 1 } }, false],
    ['another secret', { rawInput: 'one-secret' }, { rawInput: 'two-secret' }, false],
    ['the name of a secret', { rawInput: 'one-secret' }, { rawInput: '<secret-hidden>' }, false],
    [
      'another end of a long input',
      { rawInput: `${'x'.repeat(40_000)}1` },
      { rawInput: `${'x'.repeat(40_000)}2` },
      false,
    ],
    ['another end of a long title', { title: `${long}1` }, { title: `${long}2` }, false],
    [
      'another content and no input',
      { rawInput: undefined, content: ['1'] },
      { rawInput: undefined, content: ['2'] },
      false,
    ],
  ])('identify a tool call that has %s', (_case, one, other, isSame) => {
    const recorder = new UpdateRecorder({ needles: () => needlesOf(['one-secret', 'two-secret']) });
    const hashOf = (fields: object) => {
      const parts = { toolCallId: 'a', title: 'Run', kind: 'execute', rawInput: 'x', ...fields };
      return recorder.ask(parts).call_hash;
    };
    const first = hashOf(one);
    // Another call, which takes nothing over from the first one.
    expect(first === hashOf({ toolCallId: 'c', ...one, ...other })).toBe(isSame);
  });

  it.each([
    ['short parts', { rawInput: { command: 'x' }, content: ['y'] }, true],
    ['a long title', { title: `${long}1` }, true],
    ['a title that is too long', { title: 'x'.repeat(40_000) }, false],
    ['a long input', { rawInput: 'x'.repeat(40_000) }, false],
    ['a long content beside its input', { rawInput: 'x', content: 'y'.repeat(40_000) }, true],
    ['a long content and no input', { content: 'y'.repeat(40_000) }, false],
    ['the largest exact integer', { rawInput: { number: 2 ** 53 - 1 } }, true],
    ['an integer that the parser rounds', JSON.parse('{"rawInput":[9007199254740993]}'), false],
    ['a number that JSON can not repeat', JSON.parse('{"rawInput":{"number":1e400}}'), false],
    ['a fraction', { rawInput: [0.1] }, true],
    ['many levels', { rawInput: nested(200) }, true],
    ['too many levels', { rawInput: nested(300) }, false],
  ] as [string, object, boolean][])(
    'know whether a tool call is whole: %s',
    (_case, fields, complete) => {
      const recorder = new UpdateRecorder();
      recorder.add(aCall('a', fields));
      // A request for permission repeats no more than the id.
      expect(recorder.ask({ toolCallId: 'a' }).complete).toBe(complete);
    },
  );

  const diff = (path: string) => ({ type: 'diff', path, oldText: null, newText: 'x' });
  const says = (text: string) => ({ type: 'content', content: { type: 'text', text } });
  const files = (...names: readonly string[]) => ({ locations: names.map((path) => ({ path })) });
  it.each<[string, object, object, boolean]>([
    [
      'the arguments of an MCP tool, of Gemini',
      {},
      { content: [says('[Payload omitted due to length with parameters: body]')] },
      false,
    ],
    ['short arguments of an MCP tool, of Gemini', {}, { content: [says('{"body":"x"}')] }, true],
    ['the end of a fetch, of Gemini', {}, { title: 'From: "read h..."', kind: 'fetch' }, false],
    ['the end of no command', {}, { title: 'git diff main...', kind: 'execute' }, true],
    ['the end of a title beside an input', {}, { title: 'A…', rawInput: { a: 1 } }, true],
    ['a file that is read, of OpenCode', {}, { kind: 'read', rawInput: {} }, false],
    ['a file that is read, beside its input', { rawInput: { path: 'x' } }, { kind: 'read' }, true],
    ['no argument of a tool without any', {}, { kind: 'other', rawInput: {} }, true],
    ['the only change, of Codex', { kind: 'edit', content: [] }, files('a'), false],
    [
      'one of two changes, of Codex',
      { kind: 'edit', content: [diff('a')] },
      files('a', 'b'),
      false,
    ],
    [
      'no change',
      { kind: 'edit', content: [diff('a'), diff('a'), diff('b')] },
      files('a', 'b'),
      true,
    ],
    [
      'no change of a file with a new name',
      { kind: 'edit', content: [diff('b')] },
      files('a'),
      true,
    ],
    ['no change that a text reports', { kind: 'edit', content: [says('a: x')] }, files('a'), true],
    ['no change beside an input', { kind: 'edit', rawInput: { path: 'a' } }, files('a', 'b'), true],
  ])('know whether an agent has omitted %s', (_case, reported, asked, complete) => {
    const recorder = new UpdateRecorder();
    if (Object.keys(reported).length > 0) recorder.add(aCall('a', reported));
    expect(recorder.ask({ toolCallId: 'a', ...asked }).complete).toBe(complete);
  });

  it.each<[string, object, object, unknown]>([
    [
      'its content, of which the request has the beginning',
      { content: '{"command":"echo once; rm"}' },
      { content: 'Requesting approval to Running: echo…' },
      { reported: '{"command":"echo once; rm"}', asked: 'Requesting approval to Running: echo…' },
    ],
    [
      'all fields, of which the request repeats one',
      { rawInput: { command: 'destroy', workdir: 'production' } },
      { rawInput: { command: 'destroy' } },
      { command: 'destroy', workdir: 'production' },
    ],
    [
      'both inputs where they differ',
      { rawInput: { command: 'ls' } },
      { rawInput: { command: 'rm' } },
      { reported: { command: 'ls' }, asked: { command: 'rm' } },
    ],
    ['the input of the request alone', {}, { rawInput: 'ls' }, 'ls'],
    ['the input that the request repeats', { rawInput: ['ls'] }, { rawInput: ['ls'] }, ['ls']],
  ])('ask about a call with %s', (_case, reported, asked, input) => {
    const askedOf = (fields: object) => {
      const recorder = new UpdateRecorder();
      recorder.add(aCall('a', { ...reported, ...fields }));
      return recorder.ask({ toolCallId: 'a', ...asked });
    };
    expect(askedOf({})).toMatchObject({ title: 'Run', input, complete: true });
    // A call that differs where the request is silent is another one.
    const [field = 'rawInput'] = Object.keys(reported);
    expect(askedOf({ [field]: 'another' }).call_hash).not.toBe(askedOf({}).call_hash);
  });

  it.each<[string, (value: string) => object]>([
    ['beside an empty input', (path) => ({ rawInput: {}, content: [{ type: 'diff', path }] })],
    ['in locations alone', (path) => ({ kind: 'delete', locations: [{ path }] })],
    ['beside an input', (path) => ({ rawInput: { a: 1 }, content: [{ type: 'diff', path }] })],
    ['beside the text of an input', (path) => ({ rawInput: 'ls', content: [says(path)] })],
    ['in locations', (path) => ({ rawInput: { a: 1 }, locations: [{ path }] })],
  ])('ask about another call where it differs %s', (_case, parts) => {
    const askedOf = (path: string) =>
      new UpdateRecorder().ask({ toolCallId: 'a', title: 'Change a file', ...parts(path) });
    const [one, other] = [askedOf('one.txt'), askedOf('other.txt')];
    expect(one.call_hash).not.toBe(other.call_hash);
    expect(JSON.stringify(one.input)).toContain('one.txt');
  });

  it.each<[string, object, object, unknown]>([
    ['nothing that its input says', {}, { content: [says('ls')] }, { command: 'ls' }],
    ['nothing that its title says', {}, { content: [says('Run')] }, { command: 'ls' }],
    [
      'no place of output',
      {},
      { content: [{ type: 'terminal', terminalId: 'x' }] },
      { command: 'ls' },
    ],
    [
      'no file that its input changes in the same way',
      { rawInput: { path: 'a', old: 'bc', new: 'bd' } },
      { content: [{ type: 'diff', path: 'a', oldText: 'abcd', newText: 'abdd' }] },
      { path: 'a', old: 'bc', new: 'bd' },
    ],
    [
      'another change of the file',
      { rawInput: { path: 'a', old: 'bc', new: 'bd' } },
      { content: [{ type: 'diff', path: 'a', oldText: 'abcd', newText: 'axcd' }] },
      {
        path: 'a',
        old: 'bc',
        new: 'bd',
        '(content)': [{ type: 'diff', path: 'a', oldText: 'abcd', newText: 'axcd' }],
      },
    ],
    [
      'what is said of it beside its input, once',
      { content: [says('deletes all')] },
      { content: [says('deletes all'), says('ls')], locations: [{ path: '/srv' }] },
      { command: 'ls', '(content)': [says('deletes all')], '(locations)': [{ path: '/srv' }] },
    ],
    [
      'an argument that has the name of its content',
      { rawInput: { '(content)': 'ls' } },
      { content: [says('x')] },
      { '(input)': { '(content)': 'ls' }, '(content)': [says('x')] },
    ],
    [
      'arguments that have the names of what is said beside an input',
      { rawInput: { '(content)': 'ls' } },
      {},
      { '(input)': { '(content)': 'ls' } },
    ],
    [
      'what takes too long to compare with its input',
      {},
      { content: Array.from({ length: 2_000 }, () => says('ls')) },
      { command: 'ls', '(content)': [says('ls')] },
    ],
    [
      'texts that its input has only one behind the other',
      { rawInput: { a: 'rm', b: 'x' } },
      { content: [says('rm\0x')] },
      { a: 'rm', b: 'x', '(content)': [says('rm\0x')] },
    ],
    [
      'the beginning of a long content beside its input',
      {},
      { content: ['y'.repeat(40_000)] },
      { command: 'ls', '(content)': `["${'y'.repeat(3_998)}… (the rest is omitted)` },
    ],
  ])('ask with %s', (_case, reported, asked, input) => {
    const recorder = new UpdateRecorder();
    recorder.add(aCall('a', { rawInput: { command: 'ls' }, ...reported }));
    const { rawInput } = { rawInput: { command: 'ls' }, ...reported };
    const question = recorder.ask({ toolCallId: 'a', rawInput, ...asked });
    expect(question).toMatchObject({ input, complete: true });
    expect(question.input).toEqual(input);
  });

  it('ask about the same call again, whose id and whose place of output are others', () => {
    const askedOf = (id: string, text: string) => {
      const recorder = new UpdateRecorder();
      const content = [{ type: 'terminal', terminalId: id }, says(text)];
      recorder.add(aCall(id, { rawInput: { command: 'ls' }, content }));
      return recorder.ask({ toolCallId: id, rawInput: { command: 'ls' }, content }).call_hash;
    };
    expect(askedOf('call_2', 'a')).toBe(askedOf('call_1', 'a'));
    expect(askedOf('call_2', 'b')).not.toBe(askedOf('call_1', 'a'));
  });

  it('ask about all of a call, or say that they have forgotten it among too many others', () => {
    const recorder = new UpdateRecorder();
    const askedOf = (id: string) => recorder.ask({ toolCallId: id, rawInput: {} });
    for (let index = 0; index < 250; index++) {
      recorder.add(aCall(`call-${index}`, { rawInput: { command: `rm ${index}` } }));
      if (index === 0) recorder.add(aCall('call-0', { status: 'completed' }));
    }
    recorder.take(true);
    expect(askedOf('call-249')).toMatchObject({ input: { command: 'rm 249' }, complete: true });
    expect(askedOf('call-1')).toMatchObject({ input: null, complete: false });
    // Another call may have the id of one that has ended.
    expect(askedOf('call-0')).toMatchObject({ complete: true });
  });

  it('ask with no input of an earlier call that had the id and has ended', () => {
    const recorder = new UpdateRecorder();
    recorder.add(aCall('a', { rawInput: { command: 'rm', dry_run: true }, status: 'completed' }));
    recorder.add(aCall('a'));
    const { input } = recorder.ask({ toolCallId: 'a', rawInput: { command: 'rm' } });
    expect(input).toEqual({ command: 'rm' });
  });

  it('ask with the input of a call whose id has a secret', () => {
    const recorder = new UpdateRecorder({ needles: () => needlesOf(['call']) });
    recorder.add(aCall('call-1', { rawInput: { command: 'rm -rf /' } }));
    expect(recorder.ask({ toolCallId: 'call-1' }).input).toEqual({ command: 'rm -rf /' });
  });

  it('ask about too many levels in as few as a client reads', () => {
    const { input } = new UpdateRecorder().ask({ toolCallId: 'a', rawInput: nested(1_000) });
    expect(isDeeperThan(input, 201)).toBe(false);
  });

  it.each(['one-secret', '<secret-hidden>', '<\\secret-hidden>'])(
    'ask about %s in a way that no other text has',
    (given) => {
      const recorder = new UpdateRecorder({ needles: () => needlesOf(['one-secret']) });
      const text = `curl ${given}`;
      const parts = { toolCallId: 'a', title: text, kind: text, rawInput: { [text]: [text] } };
      const { title, input, call, secret_marker: marker } = recorder.ask(parts);
      const shown = `curl ${given === 'one-secret' ? marker : given.replace('<', '<\\')}`;
      expect([title, call.tool_kind, input]).toEqual([shown, shown, { [shown]: [shown] }]);
    },
  );

  it('escape their marker where there is no secret as well', () => {
    const { title } = new UpdateRecorder().ask({ toolCallId: 'a', title: '<secret-hidden>' });
    expect(title).toBe('<\\secret-hidden>');
  });

  it('ask about a call with its whole title, of which its event has the beginning', () => {
    const recorder = new UpdateRecorder();
    recorder.add(aCall('a', { title: `${long}1` }));
    expect(recorder.ask({ toolCallId: 'a' }).title).toBe(`${long}1`);
    expect(recorder.take(true)).toMatchObject([{ title: long }]);
  });

  it('have the beginning of the input of a tool that is too long, and the size of the rest', () => {
    const numbers = Array.from({ length: 100 }, (_none, index) => index);
    const json = JSON.stringify(numbers);
    expect(bounded(numbers, json.length)).toBe(numbers);
    expect(bounded(numbers, 20)).toBe(
      `${json.slice(0, 20)}… (${json.length - 20} characters omitted)`,
    );
  });

  it.each([
    [{ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'a' } }, 'message'],
    [{ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: 'a' } }, 'thought'],
  ])('say by which text they grow: %j', (update, kind) => {
    const said: unknown[] = [];
    const recorder = new UpdateRecorder({ onText: (text) => said.push(text) });
    expect(recorder.add(update)).toBe('text');
    expect(said).toEqual([{ kind, text: 'a' }]);
  });

  it.each([
    [aCall('a'), 'event'],
    [{ sessionUpdate: 'unheard' }, 'event'],
    [{ sessionUpdate: 'agent_message_chunk', content: 'no object' }, 'event'],
    [{ sessionUpdate: 'usage_update' }, 'ignored'],
  ])('are an event or ignored: %j', (update, result) => {
    expect(new UpdateRecorder().add(update)).toBe(result);
  });

  const chunk = (text: string, kind = 'message') => ({
    sessionUpdate: `agent_${kind}_chunk`,
    content: { type: 'text', text },
  });
  const hiding = (...values: readonly string[]) => {
    const said: Said[] = [];
    const needles = () => needlesOf(values);
    const recorder = new UpdateRecorder({ needles, onText: (text) => said.push(text) });
    const textOf = (kind: Said['kind']) =>
      said.flatMap((each) => (each.kind === kind ? [each.text] : [])).join('');
    return { recorder, textOf };
  };

  it('have no secret, wherever their pieces split it, and say the same live', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(8)), fc.string({ maxLength: 20 }), (sizes, before) => {
        const { recorder, textOf } = hiding('s3cret');
        const text = `${before}s3cret and s3crets3cret`;
        let from = 0;
        for (const size of [...sizes, text.length]) {
          recorder.add(chunk(text.slice(from, from + size)));
          from += size;
        }
        const shown = text.replaceAll('s3cret', '<secret-hidden>');
        expect(recorder.take(true)).toMatchObject([
          { llm_message: { content: [{ type: 'text', text: shown }] } },
        ]);
        expect(textOf('message')).toBe(shown);
      }),
    );
  });

  it('have no secret where a long message becomes two events', () => {
    const { recorder } = hiding('s3cret');
    recorder.add(chunk(`${'z'.repeat(99_997)}s3cret`));
    const texts = JSON.stringify(recorder.take(true));
    expect(texts).not.toMatch(/s3c|ret"/);
    expect(texts.match(/z/g)).toHaveLength(99_997);
  });

  it('keep an end that is only the beginning of a secret, before a thought, a tool call and the end', () => {
    const { recorder, textOf } = hiding('s3cret');
    recorder.add(chunk('a s3c'));
    recorder.add(chunk('b s3c', 'thought'));
    recorder.add(aCall('call'));
    recorder.add(chunk('d s3c'));
    expect(recorder.hasEvents(false)).toBe(true);
    expect(recorder.take(true)).toMatchObject([
      { kind: 'MessageEvent', llm_message: { content: [{ text: 'a s3c' }] } },
      { key: 'thought', value: [{ text: 'b s3c' }] },
      { kind: 'ACPToolCallEvent' },
      { kind: 'MessageEvent', llm_message: { content: [{ text: 'd s3c' }] } },
    ]);
    expect([textOf('message'), textOf('thought')]).toEqual(['a s3cd s3c', 'b s3c']);
  });

  it('are understood although a secret is a word of the protocol', () => {
    const { recorder } = hiding('completed', 'title', 'tool_call', 'content');
    recorder.add(aCall('a', { status: 'completed', title: 'the title' }));
    expect(recorder.take(true)).toMatchObject([
      { kind: 'ACPToolCallEvent', status: 'completed', title: 'the <secret-hidden>' },
    ]);
  });
});
