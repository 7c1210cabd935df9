export { Changes } from '../components/changed-files.tsx';
