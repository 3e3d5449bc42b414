// Direction numbers of Sobol's sequence: S. Joe and F. Y. Kuo's (2008, "new-joe-kuo-6"), which PyTorch takes.
// Polynomials need no table: they are the primitive ones over {0, 1} in their order. What is left is the
// first numbers of each dimension, as many as its polynomial's degree.
#include "tern/ops/quasirandom/directions.h"

#include <cstddef>

namespace tern {
namespace {

// Number i (from 0) is odd and below 2^(i + 1): its i middle bits, the lowest first, six to a character, for
// one dimension after the other.
// clang-format off
constexpr char first_numbers[] =
    "DUqpQKxNJAkq6HHMuqibM+IyNGV6f3z8tdEln4XJw0ipYdU7fYTqXTYEthEwll6EZHV9C2esOSioFpWohH47NNP2UshyfDm++v/BLtKm"
    "8T76IBftga5hfgnCySgZyU548FgscXOy5o3bu3QoewwR2KH2PEJNKq/9qlqqmwKHdZ991AYTQEIcuIY1I+8MLf0C9RbLWyBPvW+0SN43"
    "vPlS0Nk9c/OF6/sxAKZ+OtCQUV7zXS3awdKUK0gGII7dA2v9CqGosA53Y8f+B5z26HFI1/zOu9JlHSWUrvteIwYgmVdgnPAi0pie+qgr"
    "99Hjm2TXFTGIwxXJJhfY4J0pQbEupuzL7wyCn1JHj16PKapVQbrE/pEyT8Hy80A88cOx6AAASis38r6YIenspG86FJuE21NqN1hSxCZg"
    "3pfmD5VNDaTmit5stgjvmtG4/dqSYpjtNXC1LpcRIF/tyZJzv/DNvMasyntVKT3B41un70QEiA4Wl9BKfKVm/fU5MFbazgL4TlMFBn4Z"
    "ifEvxbS9DWwnursTPT+EYXEBvz99Ca1FykROqBs6/KzZCVp8cfr2OxDjH6M8wipGaWWLeSMbtzJj8Z2WCAJ3jlHacpOqiX3a76kpSVlh"
    "qkzcb5QjjzSY5ch1U+JYnmhayNh+7RQz+hL9QAhf5aqcuHMJ6h3LzRiQwprg7AFrT/0bnWH8nzCDBfXQ5afQCKj/NUbso1f3LQHPh1B8"
    "FjFozbCZt9ysJl1n4MtwbkSoGAYGBa5dn514Yoqt2iVURpPWvV+pV/Gadb4Mg/mfIvLnerPNoSkMHXOLg90jTfJLFkvkS/BpW+yaSQgZ"
    "Lexmlv8uhfVCeXN5/XXNlWvljp+ayXb0IAk2MVaam+1ck/21KYqzeFJ+c7jel/SthNhjYMf29Gj3DnQoOvxal6OxbM4Hkt8sUjcRXImh"
    "JbRmNA8hr9C7tpNCJcbNbOa1Oc4yFYzgfMlPiu9qgHrolZ8IQHkF5BsaceWQqB4zrcvu2O7E+XUvv/AjYDO6XgAmxwhyQjO2MZcPbcM+"
    "a4snKhsNKhTx0f9cfs1q+4K3pl33D0mZvswYot/iQDZBq1dPo6ocneZlPzAhGr7qfAYlEuNE4Kty7ySsJFx+LZjMp9nyvGQ8qh2FLmds"
    "V1wRLiw8QsWGW3GASyc7kV0J9fjzNQMVcHwJX924vp2v/kQZkHgHLrPOkryj9bgj1/vhgFMEfHKjLRSl89NVUCic/k31IzSxBOW/ZTtM"
    "3wY2TcmSzC+iYY1FUZkH1lOiFggpYjGWUdwN18WXRxSvXdDK5PA1EvoUtKleJksBUElYHo1cC4UchyhY6ifadtTYp4OLvM9Zvej9mFVk"
    "vMJ1Kz3VqUjBo+RO7CG6JFQY8yL3NQjvgiZBrJZIfnmD1itZQ24FlpKYqgPmu1kHDw4fsU9Y8OyW1NQj0IEhiCy9jtXlMu+Vjhhd3U6m"
    "wX5vyCJRdC5tJdcYZsuf/wmIZvbNMaCX+8qfrR1+uv+RrGQmg/yiJ77hjYh+V++x5h50nYfMT2SV+bu4TqN+3CtCuiiS1x+0varSyCkV"
    "Fb7CBbp6KS0IB4Mz0vpZHDFR32l/wk+P6fiZ0X989fesXxNVp0NLGP33tYqFlVG5BQFygFAUQBkahYSDSlel3vUbE1k0nYbMQySADjS7"
    "tey70OOXx/jmAiUUvQG5/KRg8ishsrDYKuO9n1NbyDX+PcvcUWHMGYq0zaId/fuxTVITyFizDtjZXZSqS4IMeYyUd65PhImuUx6qrHKD"
    "aCh51rXMRbpZFMwJmBnLck5MhWY9yC+RUv6Vf/X+ewOdijCu/QlnnuKEYcwHLG+TNmio14gmeEhGEChrxfS74QEw/sfROzj8+NxyJnHU"
    "e9uZSL/oenBdlK/gTEmhBLqvUeWMdr/o0yZemIgdZr6N9MLYdaBqa5rKd2ANU+BVelebFNhQJ8SqMvB09mQEK/J0SV7FECDazFxAnq03"
    "HdCFaOkKEEQggquBsvDGFNXtEokBOEkJ+qKbm7rUl7dPstym9tNI3We4i6I2Bq6gOE+rIIRjhoSRB4M5gEQi2aDtZplrtc86bqQ7r5Vg"
    "b/XZzcvGjymcmm6ZqIyQFH5VowZ/NG1a94NA+RiEV1013UruJxQ7ofEsh1s0wbAyWXc3na8kF0iQ56Z77XNQ3A/1HfA+QHq+FMTiGC7+"
    "5c4dH/+DylTqznCNyOpbI8EiZ44ja4XnqlauDr2pu7ZLa/Uu6DcEMYygdf+SYBTL4Z+MVBHXzDhvSX11ZD+5utmazSelnoFsxck3wGb9"
    "SJkLX3MMnGjJjHuMLD+MyamDYIL2ZotUQieuJ5MoRl8yaEze7YCswrdMcu+TyK/ycGfSGyX5CdsZam3tmNXqXnYu3CHPad3Ee/81W9O7"
    "iI2+W0JQ4cX+II+AuqFipM/jh0YWHxj85XRKlDoI1xUywn6BYj6n1ehLvrKJEy0X2U4UBVeiuVY5eGz0UpRXVwac5Mh5Jw7r7RrEVaeu"
    "9xwH+YnyFRIldiyV4QTZ48iOPUHvMdzzDi7cVfhJXoL2XYdQu9GWVAXHt80sj8cK2ZvOVihC9dyPcV8S7fAPFCM6nrObLa7M7Wcbe7KU"
    "igeefUPpWbwoetr0bsSTixIm4lETEgkVn/PFxMyOX/r/01gD4rVeGi/DjQO5w90ApJHYJFuptY+3eWoZ5zmW1V/eZ+LSJGdNP5hATB9b"
    "xcrPhYiN1wSCtToWbkEjOgHl4BaMXxfVXXbOevsCqSUQ0LU47PQ6pYnBZn9zJAYHB3EkfZixZZPkVQUhFVeB4zLQVD4uI/KukRto/Dyg"
    "89wVV6eRIppKzDQRJdp4T9ZHavQk2fmQIIsg2E/VHk0KT9j9Sb9nTtXmAM+GrrFPuEJJGOUBw9a9jpSil4fgDQkrw0S9nuWMo5YmcTUv"
    "yrHcfz7pamRZ6bvu3t2NNp+x+ufdhx13cgKkZOL+411E1hmbnTT8WXdrlKVSpCW5E/WaSDloxOCcfk7yKDFKKwN/WDT7NMlPG5kkF2DI"
    "vOYvnlG1QTt8SmYi2JpU+yY/Ly6H5TT9h81k7WtZO8ASUovoE9JiRylQbHAyfh6S5WUL5DWtIrrlnZA51MhtKWpRpSvXINpBhFGw2fYu"
    "FPj2eWkV3abgLGa0HsR6HxLTI0Xht9YGj7D1XyAaLXQS00skkkc+UULKIhkvAfHv2qENRHbUJ+ZoDMb7r5xnBJwY4NW6vW14+AD2ZknS"
    "+2soOf7LStTNKNmEfb1nLhd+A4Xo4qW1MCWfp+di5LbmK4j8oUmdbNCqin4eLs2Uafh/hNFK2T2J+LqofbfojI/ZnhPnMbCMnaTtxppe"
    "9DlHJm/iuDtbea8RUatmd0pFxkdvEKXXr1K9efTnJEPJe6v8MEDjuIVrAu+ksUM3Yy+sQjzWhIte3T6knX1cyQNe21JSWwTHXAoF8GLm"
    "qdn5oQ9iKjeO27G1fB4VIS92jHq09oVGFop/qXcb1feByeZNsdVXt1s52zpxhO/rl0bWnNaW01HeeGaOlvjcNOI+gcq3rXejFXIZN0y2"
    "3fVrPhm3O6mwry/JhnVGcL5v4Xv+B2u5PZLrBMoLwbcHbI77aU5Ni4jLVuW3wSmux/i6a3J3Zs2VlXMU8yc8zI6PYc7aZFBpXQ5wUKz5"
    "Nr/5cfWnsem4O0j7WeorUrb/SOPcWfOv/luMqLGPlpjZ/zEDr4HlpTJTzLr//RuubpeLBnWu0hekXyDeX2ongW4EMHXx/EDDNEzrh2/0"
    "Jge9i3VDh3ZDFGYKeHpyOkdSPbh4QYuclWS9vI4FsZzfBG4jdemtKFZPYWnyEUbuixGvF/210p+XqIhzwqhhHX45A1tEgeK3F0RiGXrN"
    "cKSFInAQnvZg0zjMJr0PQpMaQhc8AbFEuOkD5Ww2AoiBWywmCqWaRTEgHlYIdFPfOH90FSFVNN60orYBqM6KysQAVv5Wg197OK79JO6p"
    "1wmpc4pSb6D0qlXtouAzW0sn8jc/2iAi4JoC9Q3k86KUITFaiJHViJAxnSNnFNuRIEwwzAGJThvFICVKq19iTcQhnUTStYbJXTc/AXvG"
    "rFmg5RFLc72Ogq1aQiRNYojbjALBwzj7W2CdH+BQi5QMzB100yi1Xn+dkqOmoFkdgzL/0yWQ4t0ppKeGeIa/qFjmUtDBVTjf+nb+7mu1"
    "Dz71IeCFodkY6sqALrlIHY1kVecPxs3vD+jVDUxR7hAhnIlDdv3hEJDEVIb/L8KgDDCWUGz0wg8mV05SXr4qqGFhdOlYKqDmgFJxG55T"
    "9JidX/I/U3ga91RSATZ33fS8g788wgu0jWmn+afd49vLlJkGqqExQd0mrS4Wtat/LMeKiy6HIVZ7OkXZL4VRKMayRJH28/3uE/VjS41c"
    "WBlBlkQ88Fnh+41R0cIKID+1vzBSZ/VdRRq0LKD5x9ETla2yycXa6Y1wY8dwuhWjePjTOuam+OqZ9YIDKfWcuQDxJE4iAEF3hvHtHSDc"
    "UWmd0tc+kI7L4msDViFBYyCcg1ZLF1RCDF5j9rPB+WOaneoKdWBgzjh3cMFcrzzC3z4caE90YFPn0T0ZhvWyTq4ePUSfUOxFDxOGfdGm"
    "Ht134eQjByQWh1vU9No+bDcPQi62JoemfGwYCR9LqYlIqKeZxIqaUKw2ru1RXKoEnqaP9F5F0C1L7oVj/WPled+dX0RiLF+s+VyzWKZp"
    "fQZvAmj8I5CTqZ+61Q/py1gYwRlZRb7EKnvOMYsswDYrYQ/BT95Ey91qQYsyxV1CzTmuRQeJG8GLbe71yjfhxAPxsAgO5ebNuoRVJm/6"
    "PRqCZSSsD1+0YWRWQKp+0ery3HGVNIphZbtSaxu8ZJy+DUIYXgQBgMcjo+HcBixMePpNKS8iq0CrrsiUAaZdwt86k7jpn2v0tVtdJXO8"
    "gvHANdpGdBb1kOztw3QnQ9cfcN8kK0XFrhJTdQFcfMh9jdeBjDRBGk+DgJ5v2hq7yDMjs9oWoEuBikCDYc91TKVAMo3iW6s2DcQl/mQC"
    "GwkI3Nq8y8b6AqQ8MQUWBig36ufqi85NO3UyWDTWNPvFRfcLio2VShCUJ3faJFJ/o/1siO7tix6RIv3OFeHghFLy0FOPkt9wqTH10C1s"
    "miWAFD2DOvQHGL1DO9CkqdOR6gK7BZXc9dLAeSDlzJYD04sHKtxQSYoq+PfjdxDdWFea5Sm0cuXWrPJWw8uhaXsMxUDVBq244j142pEM"
    "0D2SruXJy7UtpFUm/bJwevJI6RaWtLzA7U563NFn77Z6oIxbkMBssQ+nEzZqI+YcRrw9t45jIfqzhjr0XC1Dbz0N8fbj8ZWQ1Ttf0P0+"
    "s+Qez2O9RRUUyo0ekpjf5wU46twop9jM/NR4Rd4Hg+y/YPpki7k6bVFFNJk0rmtKnMQylY8fpnVF+H6MyT1M5f6HujXLU1QLShRdUMOy"
    "z0+7Ose3sBBMAn8Bg3E7WILln1AXxiQX0Ajjh/srJMshb2sj7XNldchgsvqlkd6WHtvFc34j7wuT5jxUv59IehVPtHmVic3k5m6ifAnH"
    "T/faBuWOM/T6eIYM9BFko7KgMyfH/FDlPB4KR1trwKZgqjT7bcHkafGqjFtmP0oux4j6ffshJ5iIDe24alcNmblBdaIMrUMRRcXjSS3k"
    "IJQVHi942hl4mQJMlq34Mc804MAssgK+lfSzAzh7CXl1ACUKs0q0cJxC1jSRqT3VWZ3mrqcBJMrZmFnHE8oTeoK7xrTRbG4O4qDWX7Ke"
    "jj1S/d5nN4Z120gqnClfV+z2XZ9xl0yvbbgylg/FHnDc7Cs1qVtqpO365etwqknMtJfvByB+Zf/B7eK4mOydscepdV66TwvjKR5UGgke"
    "wvxRxJu8T+1iHmOG5cS6wRBYWyDGV2HHTH+gvkzudyMS+p1fO95YeanxXnYj2RL+PZ1S51uUViNTPVIK97trmJOv+2i94tY2uBdVckd/"
    "Ops/DwBLECMWGyOB31yw1cL/yhsehJxfKXnpmj/Lj3DdZkcRFPEa94S2xn1GvltcBdLwEIHVnNaPhLix3b8b+Zkr09NLCHuaZgtvBcZ7"
    "IEQ/T7UhXNylBv+UdnBM2PGYrYEDANncNAgqJE1qrsmWGZHPBPGkV0qMS6tLdxZkSzUzhEhU7VCBKXE5CHzjnObAFMXxiLslTnJ5pvAx"
    "4H2/ZM6+9AyWhuJ9WRc9DGgWDyjR1FV0rQN4AIGZqCpOk26LM5uA1HUvs7lWSgUPSgfP2dvivq/3QQ0BnFFShZdNkK5T4yFLOKWpKizC"
    "KTpbPR9YeHlDu7dp2MuHM2vLGlZtdFJjZ89J/K8kCFfGf2R85DwojzuRzM45QPSeJw4Mlw9auE1cUIWAkAolE6Ke2BUd2VVpEQ9p23ux"
    "KCBoH0vCXSIuxh2hWJBbrtK11uckRJ/9MF7tgo31l41IG796ZiFgmv4Q6M1jn+EdwUZOmOCIl76dtgFDjnBeGijmbubv5DP79dP+dRiy"
    "NrPYdYr0ighGMfJlpcVc9srD2czGYN7emjCWpezF0yYQ3hTLL/WI6TncyXzGHgJO/9AFYmEylAAnSth8IZvqxxQUM9K/oZOzrWIJXfR9"
    "ECBpqjx5OwuXOQjNK/kjAsuiLyyrpCEaeIZi7xNfHlswMwRSo6f2diCbb0j7GVlquZWNMUMjRU/9jizPOQOmvmP8EZqIE6LS7LimKQoq"
    "Nzru3Km0Oz2IYQ7lt0CqhzvdXRV6eKD6rehdGmdbuOkhe5sIOjBFWlwO3bevLMpNKBOMU/PCCjYaIj3mmYkKUwhkJ+JCLyKeugjy7Yxt"
    "x7Y0vD8TdAyZfdrw3jv85/PQfCTTEFZ/tJMfOS2RnvWuAmty4ALOpQML7WhX3KL9Hxb/iuK8shxWN2uqv8zpfHQzFPUwyBeCRqgGggPc"
    "CiygEcPTIiQqdMXzE2B2MJwa/rvHgJX1N80zpxqIXGyIfDk39PTt2or6jUtER/3Lgvhk+/g4ByqgLOHsp48yT2ffq/J8HIo4G3a2DIuR"
    "4iL7CFuq0gAjrceFa5BjJlxgDbIdXlNTNezVQtI3CPT9n38NT5obh2Mk6Yl90IbUJl+UdciEgGCZYckeW+fiACqxYjAS9yhRdHD0OlDl"
    "ut5VUiwubQ4c0saVa2e7RoKIK7YMuVfZZ7jU9nl0zmVLB/g9YkMLAyw6kOSVZA2dS1Ft8t1GRE8OLpiTEmVjG9wtsYl9ugRRzLHVfsV1"
    "6wLy6MlsXMiSAWAjwkun+Ydhl7vkSwjwnRYsek9uT48iYS7ThNrz0ubUdNot42/N9ehjTLRRzArk0OcpevfvpU8JC/L1Ws3XNu8kqNaK"
    "opxp10xYkfQN0rfYd7tGzF9kXlaagMm+LkCSAlVHEjZ9wkPhe2iQi7gjonMFFhr0C/WeovMBtKiGUYcE3Oj5mZlQH6bvyXF4d3gJb1kT"
    "3c/qnrETcrvo0PLAZBqJpyB+Ko0WLwcc+9189vgQCCyzmH1c/m3E62q9Dc5CaT9hvk8nj32BFMmDe7zrzfUUUMazl3WgA1kLpNe2Fh/v"
    "5/fnmX0vlGABTpKgHGuXRBKJlMc+3iXC/8O2JjFOKeEFiXtGj1aIBeSSCS99Fp862t3S/foExTq1zutULvKAkEJI0JkGQu+qTdXpQBCy"
    "HC4EyZvZC2gJwuo+2gWY0DOKCFtpQx1fTtGpNKHVloltslzZPJQEgEWE/OFqnSOxZ9YdPkI+O35sLI7YjhxipcCMk1BLp4uEVGUyN6Ru"
    "Q98CFcWqpyQvD0LF3JVNLGe/i9kn0C6eCD1sQhveaq2Wu1giwB8d37Mg5sVuJdw2RnWAbk7MzffwnNI5MN/w+5YvFVls8g+ZuhcyV8Mi"
    "Nqzxej8fyoOHHro1sCiDk0JDLf2pLUyySwcM3vrQB1GsGidTmrBiveReRr1HWJimU/ZamKfaa7IJ46LvkjusEgpIOHyVDyYk6kXfz2Mv"
    "GoKW/+ukuu4LRrtlWAZKaYsd5HLTJgxPFMyM5F2u9LFsgqF3mK3kaM5wXHBGPBdBxI3t9LmmB08o3UDol2Wt7ZNXXG26Wy/9sMm3KQ7H"
    "YCHkcIxV0ijE+zz93UwER4LwrM3jQSVk620Ha+Gpru/wimk0J+yj11in34MVK8OgAsAPt94dJX0fjoecTBwVOssnTsOtknudEwVDxGjT"
    "w6OnCx9Ypm9PFjholMX4XU0+QnMdAz3E1ouKN777MPMqWGPogfgw5+SXpeDmrC06ShxUvBdfDKjudLMiG01+1+0s129S+TbTRc4h7/Mx"
    "hszFHs7J+5RpEgtCG0KKcbLGvM32Eoa6lLP1cd3axkcQUflcom4fxyvHUYvEuVdiYsF6zUYa49MWUc9PeEm3FUaYQ/umeajl1C0hpbAX"
    "6IIcxmailVtKjr+FAcxICptk8WvY20c8o+hAYjj96WrR0BwOMdhVp+9yiHQHatmb8B9C8e3XeneAbLfOWCZch3Aw02/ZiD4JwYkLYvEP"
    "8LsDm2zNor90vGYZ9D/Kyh88mgrseoDgIPsVUs979TGcoOT6DLXuJNQX4EJK7vKh3mn5Oc83NKw5sJ5m41wqWMsyDxecwecdvTmKhRhC"
    "ZE6C8OOu8iafTdXpGb1K5YoxIY2xaLsZWPYjWXWBcvtJVa4/NRQzMYVwmxDEecnm1bri7v5aLFTy7GnYxdGw3FdrZV/Qa5wev9LV8pPQ"
    "56bxXSHIl1Vxz2nzSvs1PIPv+u2MSnnBB/zoDWH2QyXZFOW37yRX7Qtyau8I3ZrfMuhGpCTZNJLJlcnufoNI6k+2/3KX9bHsBx6yLIRD"
    "dxx2L7QbY81MQep05kArM5TMEZWkL4zV12UtqGLo/EOkG6MSGqVqpHkXXSxJbUbkPE3RU+qdJLSbqEd5KyUt80qEkIn1Ika9tnft0Bl0"
    "+EprPVjSL6bw22/P5VMcqfkn/yY5cdf0IN8F37cj/mx9feY5/7MkV843ZrNfJ+jgBdbOweWD3+ubS4y6LaDogHoW2Q4iAf4yITf5yaDl"
    "1ZIU6BnzW9mWGxTv4YB0jU0eMQY+qnHg9WWdx43nfmHG7njTh4hGN7lIWWb47rCcyE9xfnEEzUs6aB3bFZZnEF8nHnYN+gXLtBBq9u8r"
    "es1yX9DModPIDweqWpCTJeq7XqgUSOcvdKMUb5gkV9oPGTyaIYKC8ygCy8cFX2VKbIAIGnk/Vo+2/pXgimbdvogfyZlIuQfll6SBIs45"
    "V+ityuIKFFOFDS4mg+kGOksouhNmZsuRVi9bsSCDx36fbTylra8mYjSSw4T3jG/0H4LIXYGwdZVZ6stJY8oqe7ZF0/Ow2CauHcDNaod3"
    "8trfLGAOpL990HlWmhU3miAtiW/amQo8YScdcalRswSXztYqMP0kEynG1W1GAhhz7f8tirBal4PMBV8kNZwhtKjVLolh27x7g0kPHmyc"
    "SOgr0+ri6RzfonRqzDM9cn46nvVuY76eRKIrSsBrz6x4HKMZyOBEp+DzyguF8s+1CoQs+MeChAjY/CWS3GdD6VCJZlnv2I5deF+NTKpL"
    "2hjC15FWF/Wfa1RIzdDXQLy7Cb8i7oaCwxugwDK77yEGtAazup8ifnP0XJjeclUMgJeqj4Hsrvif5I5AP0tAf3GSwJ/t6GsuyI9B8Bc8"
    "WrVugRCNcctQJDV9fhSxpkH0BWRJtE7r2v0rlK9s6tsnHAD5Qi4MgxAQoT4PDythgOPWZIcSa+TiFnhWtTQ1AOTYqFe8YfAj02Cg3DKU"
    "I9H/zs5wG6paMjDADSMhScL5G1eRV3RPNLDpYJaTxTpBe9rRp5By8xoUWlXa5LlMliG6szIaUMXWbypffN8tsqUFRlm6ArHkVqugIqhe"
    "SqSqTjLIPmmPZwNjomJa/KhsRW+pUi/aDOhjt/xes5yDs3Rc7t1cwqDDIniTfxtoIsCxiaTNxterxhkFhcmFz4UvEAUkZpc1Ffy1ad0I"
    "H/baNcmk6inXXcHw+ct0EQzcgBkdaUPcC60q/gs6Zf8bpeVUBqvAqj7dTxnuHl6NiO0jBUe9nG4bcORqfcEV/2d207ZAGvrfM06zLYUf"
    "25ZgHP8zhLFsnIyAjD+ctjmIs7gL+oXhdWROZ4sxtz55hRRw0RaTKKuA6MBbuacB3Br77Xt/uRNiOxwGTcs5z8wldnA8o9j7x0553hbY"
    "NuBv23NiI16Y+NAWuiJLgHzecItxA54slSKWe4MPecFQQwuDtxUKRRHujRts21YvJ93Jkgi633DKVgAidS35p1wVs6ueYHNT7RQtabSC"
    "SnWbmS4wP+AusodVvtN3PV1tmwKrMNM4IOnrAaJ7WB7pG+Ma+1OpePwYpFVZxsmprMSdMYxBAjc6fFFMM1MFPfbqT/9Kphi64wAiICgY"
    "ERCcN4PKX2RTwWXbIJYB0qRIs4nLnnUMV7/9F6Ms4c0Iyk92uR7Lv5Mk4J0Xx56oUih/K9AqTBwEmxoY5ZMVmzKBWw/GJ0BlYLWzntyQ"
    "pnh9hr5Ci21hpSgi2jF58KhA0Mxz5bR/7RswxgCsS7c+hU7WzTo2fGj+/eSW+eI4BpwsnNTLy5qHSRqd/AqaEE2B+gu8aren9nbj5Kt5"
    "gNNgS7j3sukSprLVjpJpSU80VQLcpY0hqh8eapq0lafP04dLCwQYFCjUJzB3hB6BWmnIg3xhoObg5DH/EOL2zUgSZZgmt+V1VunXweXl"
    "XdKRwi9aYtYJZLbXQnBK5ogfiUD/3pRcsvYYqJvyodYHNWD0mx9evOs2FTIK5KdyNawpbhw0jX4UtJQRpiyREmfIiCy9nr8OKPTIuu7n"
    "QgDQPWtgwsEyejJabSlJdcGktVurRpWhUABiL2qpMZqOfTDlAlDuSpxbBr3I+2vTek34E18tXkLQnGSar4WBh+eMEqJ1udLgbMRtZxsD"
    "GGAytb2VuF0SPLissNBFjANZdt9ydn4nztqRMSiCsgvhXfEiIWwvghJjUChCLQPmHuZQAV3Lz76Q4fsMgqBjiD2RDtGvThQRxdexsGAO"
    "OXizdoFEB2QGrLf5cb8nSv/4KDoqiLytzE6n8G7YS8NQKSlz2gA9QDos+XJCdm/moohu0nmLFqyTZQs3v2N4/owLNgUzXGgCZVcDhfwB"
    "lq8ZrCe1SZkKEfURFHw5fhDxNv7Fsqgc1RgloNIaoxR+2j/xyhhRimD56V0FypJaOmxPOtKTwbihaa3epbx6cjBPajttkca+txdrgtTN"
    "3REdM/yKOJLysSkh7VRZLokjB7PSZt+5nfm0FBf5UXRhGAevVuEvj4T7oDb+Qh1TDJVWFD7NdrRojxihy4xicrMfc1JO0VSFBPt520FS"
    "SIHBlI1bdRTn0ZgAe9HzubGgAb5uhY1mbgbbFa7oDYtsCFr82inV0xms3XUdscpKFrkJ+lEdWgUmeDsiK0RoZ2iP2dZ62RxqoAAx4fFK"
    "X6EBnUpXntzaLvENUYSEnjcAbVDdFkSf7v0V2LJ4f2Gulm7SqUcdvg46JLV/OAXN+63ubTR24AaDXII2UZlbX9D20Of+DhsTDTco2hty"
    "6X9oA1qXcQBAk1v+Mqw/BWLuQzlX4ccSWw++4cejthEBDgk4THtbmEILV7iJJA+OcCfPmyIqDFzrDorK4VwTPe4d4IQu7PcTnLyQ5ubY"
    "22htcNzzeQT7Q613nbhJikFNex9UcGDG9MTMLyWEUkNxddMEMQi419uFM6MJh1wc0iSjtjEByoIOMjm2xc3DoXvRR9rcI4ucllPaDbJN"
    "ASMSPtnP5YPHxQOFoodXJWBgygVoe+urKGs888/A3/EV6NwTeRfv+NJ+buks9yqiasQ/qgSmELsf8MlQVR66LAAbjl9HzCTykOangz7r"
    "shuj6MUY8/tvCgpNrYn4kscT7M3nlgL8O8IdLHBbQUM6dbMVqV368dX8GplC2bOz440KdYkN/AyVk+Glah+lVWwZGpjGtF7JcIi5hKqc"
    "6yZMKXLU/K7+qZIS9lDQ3tKvajdn8Ns0m9ErKiUHqbWH+uzvnpQoVB03eJVnzPtsY9Q/x90wSVM08H4g6cfHk98b/NGY0Da/cV3Pv9r2"
    "kXFwOlsELJMBYSZp/Y0QsRoVqLN7SVJRN2weBTMCu7GtC9h1Z/tbpygMvjf921/LU61ffo5uyZUOo1VkQKaJCLYD4zm2jyqKyVJXKC8t"
    "HpIivcj+sT1MsnKbt7/I1K9Z9q1U2VyRUTB6u9oCnaBkmTjcgsnKgfUJyOjKt6EOE66fgq4aQPs0nlVjwSAWfoMmqAiDRoJyDYqeRQm/"
    "640DGpPZsS1H7VTxJILEn4VgbFZLD0A9Cce0m/M6mpEjg/xjeqZjSOsd9TZUfEsRu6ZIbZQwtjPqBVK0UlFaci0N4uTVS1lUYS6Qg1hV"
    "TkhmHy4TwQanaZyUruYA";
// clang-format on

class Bits {
 public:
  int64_t take(int count) {
    int64_t value = 0;
    for (int b = 0; b < count; ++b, ++at_)
      value |= static_cast<int64_t>(digit(first_numbers[at_ / 6]) >> at_ % 6 & 1) << b;
    return value;
  }

 private:
  static int digit(char c) {
    if (c >= 'a') return c - 'a' + 26;
    if (c >= 'A') return c - 'A';
    return c >= '0' ? c - '0' + 52 : c == '+' ? 62 : 63;
  }
  size_t at_ = 0;
};

// The smallest e > 0 with x^e = 1 modulo the polynomial is 2^degree - 1.
bool is_primitive(uint32_t polynomial, int degree) {
  const uint32_t top = 1u << degree;
  uint32_t power = 1;
  for (uint32_t e = 1; e < top; ++e) {
    power <<= 1;
    if (power & top) power ^= polynomial;
    if (power == 1) return e == top - 1;
  }
  return false;
}

}  // namespace

std::vector<int64_t> sobol_directions(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count * sobol_bits));
  Bits bits;
  int degree = 1;
  uint32_t polynomial = 1;  // the search begins at x + 1
  for (int64_t d = 0; d < count; ++d) {
    int64_t* m = all.data() + d * sobol_bits;
    if (d == 0) {
      for (int i = 0; i < sobol_bits; ++i) m[i] = 1;
    } else {
      do {
        polynomial += 2;
        if (polynomial >> (degree + 1)) ++degree;
      } while (!is_primitive(polynomial, degree));
      for (int i = 0; i < degree; ++i) m[i] = 2 * bits.take(i) + 1;
      for (int i = degree; i < sobol_bits; ++i) {
        m[i] = m[i - degree];
        for (int k = 0; k < degree; ++k)
          if (polynomial >> (degree - 1 - k) & 1) m[i] ^= m[i - k - 1] << (k + 1);
      }
    }
    for (int i = 0; i < sobol_bits; ++i) m[i] <<= sobol_bits - 1 - i;
  }
  return all;
}

}  // namespace tern
