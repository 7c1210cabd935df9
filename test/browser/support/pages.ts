import { Window } from './browser.ts';
import { FakeService } from './fake-service.ts';

/** A service that has what a test says, and a window, for the tests of one file. */
export async function openPages(
  firstPicture: number,
): Promise<{ readonly service: FakeService; readonly window: Window }> {
  const service = await FakeService.start();
  const window = await Window.open({ firstPicture });
  afterAll(async () => {
    await window.close();
    await service.stop();
  });
  return { service, window };
}
