import { showProgress } from '../../../../src/commands/openhands/progress.ts';

function screen(isTTY: boolean, columns = 80) {
  const written: string[] = [];
  return { written, isTTY, columns, write: (text: string) => written.push(text) };
}

describe('progress without a terminal', () => {
  it('is a line for each step, and now and then one in between', () => {
    let now = 0;
    const plain = screen(false);
    const progress = showProgress({ screen: plain, label: 'agent', steps: 2, monotonic: () => now });
    progress.step('packages');
    for (let second = 1; second <= 31; second += 1) {
      now = second * 1000;
      progress.detail(`${second} fetched`);
    }
    progress.step('trying it');
    now = 35_000;
    progress.done('installed');
    progress.close();
    expect(plain.written).toEqual([
      'agent: 1/2 packages\n',
      'agent: 1/2 packages: 15 fetched, 15 s\n',
      'agent: 1/2 packages: 30 fetched, 30 s\n',
      'agent: 2/2 trying it\n',
      'agent: installed, 35 s\n',
    ]);
  });
});

describe('progress on a terminal', () => {
  it('is one line that changes and is never longer than the terminal', () => {
    const live = screen(true, 30);
    const progress = showProgress({ screen: live, label: 'agent', steps: 2, monotonic: () => 0 });
    progress.step('packages');
    progress.detail('a package with a very long name indeed');
    progress.done('installed');
    progress.close();
    const texts = live.written.filter((text) => !text.endsWith('\n')).map((text) => text.replace('\r\u001b[K', ''));
    expect(texts).toEqual(['agent: 1/2 packages, 0 s', 'agent: 1/2 packages: a packag']);
    expect(live.written.at(-1)).toBe('agent: installed, 0 s\n');
  });
});
