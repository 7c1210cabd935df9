export { Life } from '../components/life.tsx';
