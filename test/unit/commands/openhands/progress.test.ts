import { showProgress } from '../../../../src/commands/openhands/progress.ts';

function screen(isTTY: boolean, columns = 80) {
  const written: string[] = [];
  return { written, isTTY, columns, write: (text: string) => written.push(text) };
}
const clear = '\r\u001b[K';

describe('progress', () => {
  it('is a line for each step in a log', () => {
    const plain = screen(false);
    const progress = showProgress(plain, 'agent');
    progress.step('installing');
    progress.detail('Collecting something');
    progress.step('installed');
    progress.close();
    expect(plain.written).toEqual(['agent: installing\n', 'agent: installed\n']);
  });

  it('has the latest output in the last line of a terminal, never longer than that, and leaves only the steps', () => {
    const live = screen(true, 30);
    const progress = showProgress(live, 'agent');
    progress.step('installing');
    progress.detail('  Downloading a package with a very long name');
    expect(live.written.slice(-2)).toEqual([clear, 'agent: 0 s Downloading a pack']);
    progress.step('installed');
    progress.close();
    expect(live.written.slice(-3)).toEqual([clear, 'agent: installed\n', clear]);
  });
});
