int lib1(int);
int work(int x){return x+lib1(x);}
int main(void){return work(1)==0;}
