import { Controller, type ControllerOptions, type Request } from '../src/controller.ts';
import { ApiError } from '../src/errors.ts';
import { recordingLogger } from '../../../test/support/recording-logger.ts';
import { VirtualClock } from '../../../test/support/virtual-clock.ts';
import { recordedMetrics } from './recorded-metrics.ts';

function aController(
  reconcile: ControllerOptions['reconcile'],
  options: Partial<ControllerOptions> = {},
) {
  const clock = new VirtualClock();
  const { logger, lines } = recordingLogger();
  const metrics = recordedMetrics();
  const controller = new Controller({
    name: 'test',
    reconcile,
    clock,
    random: () => 0,
    logger,
    metrics,
    ...options,
  });
  return { clock, controller, lines, metrics };
}

const one: Request = { namespace: 'default', name: 'one' };
const results = async ({ reconciles }: ReturnType<typeof recordedMetrics>) =>
  Object.fromEntries(
    (await reconciles.get()).values.map(({ labels, value }) => [labels.result, value]),
  ) as Record<string, number>;

describe('Controller', () => {
  it('calls reconcile with what was enqueued, once for several times, and before the start too', async () => {
    const seen: Request[] = [];
    const { clock, controller } = aController((request) => {
      seen.push(request);
      return Promise.resolve(undefined);
    });
    controller.enqueue(one);
    controller.enqueue(one);
    controller.enqueue({ namespace: '', name: 'a/b' });
    controller.start();
    await clock.settle();
    expect(seen).toEqual([one, { namespace: '', name: 'a/b' }]);
    await controller.stop();
  });

  it('calls again after a failure, with growing delays, until it succeeds', async () => {
    const at: number[] = [];
    const { clock, controller, lines, metrics } = aController(() => {
      at.push(clock.monotonic());
      return at.length < 5 ? Promise.reject(new Error('not yet')) : Promise.resolve(undefined);
    });
    controller.start();
    controller.enqueue(one);
    await clock.advance(10_000);
    expect(at).toEqual([0, 5, 15, 35, 75]);
    expect(lines.map(({ level, fields }) => [level, fields['failures']])).toEqual(
      [1, 2, 3, 4].map((count) => ['error', count]),
    );
    expect(await results(metrics)).toEqual({ error: 4, success: 1 });
    await controller.stop();
  });

  it('survives a reconcile that throws before it returns a promise', async () => {
    let calls = 0;
    const { clock, controller } = aController(() => {
      calls++;
      if (calls === 1) throw new Error('at once');
      return Promise.resolve(undefined);
    });
    controller.start();
    controller.enqueue(one);
    await clock.advance(100);
    expect(calls).toBe(2);
    await controller.stop();
  });

  it('logs a conflict for those who debug only', async () => {
    let calls = 0;
    const { clock, controller, lines, metrics } = aController(() =>
      ++calls === 1
        ? Promise.reject(new ApiError(409, { reason: 'Conflict' }))
        : Promise.resolve(undefined),
    );
    controller.start();
    controller.enqueue(one);
    await clock.advance(100);
    expect(lines.map(({ level }) => level)).toEqual(['debug']);
    expect(await results(metrics)).toEqual({ conflict: 1, success: 1 });
    await controller.stop();
  });

  it('reads what a conflict was about, and calls again at once', async () => {
    const at: number[] = [];
    const refreshed: Request[] = [];
    const { clock, controller, metrics } = aController(
      () => {
        at.push(clock.monotonic());
        return at.length === 1
          ? Promise.reject(new ApiError(409, { reason: 'Conflict' }))
          : Promise.resolve(undefined);
      },
      { refresh: (request) => Promise.resolve(void refreshed.push(request)) },
    );
    controller.start();
    controller.enqueue(one);
    await clock.settle();
    expect([at, refreshed]).toEqual([[0, 0], [one]]);
    expect(await results(metrics)).toEqual({ conflict: 1, success: 1 });
    await controller.stop();
  });

  it('waits after a second conflict in a row, and longer after each further pair', async () => {
    const at: number[] = [];
    const { clock, controller } = aController(
      () => {
        at.push(clock.monotonic());
        return Promise.reject(new ApiError(409, { reason: 'Conflict' }));
      },
      { refresh: () => Promise.resolve() },
    );
    controller.start();
    controller.enqueue(one);
    await clock.advance(20);
    expect(at).toEqual([0, 0, 5, 5, 15, 15]);
    await controller.stop();
  });

  it('takes a conflict whose object can not be read for a failure like others', async () => {
    const at: number[] = [];
    const { clock, controller } = aController(
      () => {
        at.push(clock.monotonic());
        return Promise.reject(new ApiError(409, { reason: 'Conflict' }));
      },
      { refresh: () => Promise.reject(new ApiError(503, {})) },
    );
    controller.start();
    controller.enqueue(one);
    await clock.advance(20);
    expect(at).toEqual([0, 5, 15]);
    await controller.stop();
  });

  it('waits as long as the server has asked for', async () => {
    const at: number[] = [];
    const { clock, controller } = aController(() => {
      at.push(clock.monotonic());
      return at.length === 1
        ? Promise.reject(new ApiError(429, {}, { retryAfterMs: 3000 }))
        : Promise.resolve(undefined);
    });
    controller.start();
    controller.enqueue(one);
    await clock.advance(10_000);
    expect(at).toEqual([0, 3000]);
    await controller.stop();
  });

  it('calls again when the result says so, and earlier when something is enqueued', async () => {
    const at: number[] = [];
    const { clock, controller } = aController(() => {
      at.push(clock.monotonic());
      return Promise.resolve(at.length < 3 ? { requeueAfterMs: 1000 } : undefined);
    });
    controller.start();
    controller.enqueue(one);
    await clock.advance(400);
    controller.enqueue(one);
    await clock.advance(10_000);
    expect(at).toEqual([0, 400, 1000]);
    await controller.stop();
  });

  it('runs as many at once as it has workers, never two for the same request', async () => {
    const running: string[] = [];
    let most = 0;
    const { clock, controller } = aController(
      async ({ name }) => {
        expect(running).not.toContain(name);
        running.push(name);
        most = Math.max(most, running.length);
        await new Promise<void>((resolve) => clock.after(10, resolve));
        running.splice(running.indexOf(name), 1);
        return undefined;
      },
      { workers: 3 },
    );
    controller.start();
    for (let round = 0; round < 10; round++) {
      for (const name of ['a', 'b', 'c', 'd']) controller.enqueue({ namespace: 'default', name });
      await clock.advance(3);
    }
    await clock.advance(1000);
    expect(most).toBe(3);
    await controller.stop();
  });

  it('stops when what runs has ended, and begins nothing more', async () => {
    let calls = 0;
    const { clock, controller } = aController(async () => {
      calls++;
      await new Promise<void>((resolve) => clock.after(500, resolve));
      return { requeueAfterMs: 10 };
    });
    controller.start();
    controller.enqueue(one);
    controller.enqueue({ namespace: 'default', name: 'two' });
    await clock.settle();
    await clock.run(controller.stop());
    expect(clock.monotonic()).toBe(500);
    await clock.advance(1000);
    expect({ calls, timers: clock.timers }).toEqual({ calls: 1, timers: 0 });
  });

  it('aborts what still runs after the grace', async () => {
    const { clock, controller, lines } = aController(
      (_request, signal) =>
        new Promise((_resolve, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }),
        ),
    );
    controller.start();
    controller.enqueue(one);
    await clock.settle();
    await clock.run(controller.stop(2000));
    expect(clock.monotonic()).toBe(2000);
    expect(lines.map(({ level }) => level)).toEqual(['debug']);
  });

  it('measures how long keys wait and how long reconciles take', async () => {
    const { clock, controller, metrics } = aController(async () => {
      await new Promise<void>((resolve) => clock.after(250, resolve));
      return undefined;
    });
    controller.enqueue(one);
    await clock.advance(100);
    expect((await metrics.queueDepth.get()).values).toMatchObject([
      { labels: { controller: 'test' }, value: 1 },
    ]);
    controller.start();
    await clock.advance(1000);
    const sum = async (histogram: typeof metrics.reconcileSeconds) =>
      (await histogram.get()).values.find(({ metricName }) => metricName?.endsWith('_sum'))?.value;
    expect(await sum(metrics.reconcileSeconds)).toBe(0.25);
    expect(await sum(metrics.queueWaitSeconds)).toBe(0.1);
    await controller.stop();
  });
});
