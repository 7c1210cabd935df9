import { CircuitBreakers } from '../../src/limits/circuit-breakers.ts';
import { VirtualClock } from '../../../../test/support/virtual-clock.ts';

describe('agents that do not answer', () => {
  const setUp = () => {
    const clock = new VirtualClock();
    const silent = new CircuitBreakers({ clock, random: () => 0 });
    let asked = 0;
    const call = async (agent: string, outcome: 'answer' | 'silence' | 'refusal' = 'silence') => {
      const result = await silent
        .call(
          agent,
          () => {
            asked += 1;
            return outcome === 'answer'
              ? Promise.resolve('answer')
              : Promise.reject(new Error(outcome));
          },
          (error) => error instanceof Error && error.message === 'silence',
        )
        .catch((error: unknown) => (error instanceof Error ? error.message : ''));
      return typeof result === 'string'
        ? result
        : 'answer' in result
          ? result.answer
          : `rests ${result.restMs}`;
    };
    return { clock, call, silent, asked: () => asked };
  };

  it('are left alone for a while, twice as long each time, and up to 15 s', async () => {
    const { clock, call, asked } = setUp();
    for (const restMs of [1000, 2000, 4000, 8000, 15_000, 15_000]) {
      expect(await call('one')).toBe('silence');
      expect(await call('one')).toBe(`rests ${restMs}`);
      await clock.advance(restMs);
    }
    expect(asked()).toBe(6);
  });

  it('are asked again by one caller alone', async () => {
    const { clock, call, silent } = setUp();
    await call('one');
    await clock.advance(1000);
    const open = Promise.withResolvers<string>();
    const probe = silent.call(
      'one',
      () => open.promise,
      () => true,
    );
    expect(await call('one', 'answer')).toBe('rests 1000');
    open.resolve('answer');
    expect(await probe).toEqual({ answer: 'answer' });
    expect(await call('one', 'answer')).toBe('answer');
  });

  it('are forgotten once they answer, and are not those that only say no, or run in another container', async () => {
    const { clock, call } = setUp();
    expect(await call('one', 'refusal')).toBe('refusal');
    expect(await call('one')).toBe('silence');
    expect(await call('two', 'answer')).toBe('answer');
    await clock.advance(1000);
    expect(await call('one', 'answer')).toBe('answer');
    expect(await call('one')).toBe('silence');
    expect(await call('one')).toBe('rests 1000');
  });

  it('count once for calls that fail together', async () => {
    const { call } = setUp();
    expect(await Promise.all([call('one'), call('one')])).toEqual(['silence', 'silence']);
    expect(await call('one')).toBe('rests 1000');
  });
});
