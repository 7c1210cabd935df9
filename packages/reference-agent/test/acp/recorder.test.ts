import { UpdateRecorder } from '../../src/acp/recorder.ts';

const aCall = (toolCallId: string, fields: object = {}) => ({
  ...{ sessionUpdate: 'tool_call', toolCallId, title: 'Run', status: 'pending' },
  ...fields,
});

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
      ...{ tool_call_id: 'a', title: 'Run', status: 'completed' },
      raw_input: { command: 'x' },
    });
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
});
